package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// headroom is how many MiB below the available memory evictd's threshold is, so that a few pods can
// cross it on a machine of any size: all three together, and none of them alone.
const headroom = 2300

// batch is the PriorityClass of guarded: both evictd and the kubelet would evict it before greedy.
const batch = "batch"

// greedy exceeds its request by most. It waits before it takes memory, so that the demo can say so.
func greedy() node.Workload {
	return node.Workload{Name: "greedy", UsesMiB: 1500, AsksMiB: 600, Flags: []string{"--start-delay=10s"}}
}

func (d *demo) install(ctx context.Context) error {
	if err := d.node.Deploy(ctx); err != nil {
		return err
	}
	pods, err := d.node.Kubectl(ctx, "-n", node.Namespace, "get", "pods", "-o", "wide")
	d.show(pods)
	return err
}

func (d *demo) press(ctx context.Context) error {
	var err error
	if d.line, err = d.node.LineBelow(ctx, node.NodeMemory, headroom); err != nil {
		return err
	}
	if err = d.node.Configure(ctx, node.Policy{Signal: node.NodeMemory, Line: d.line, DryRun: true}); err != nil {
		return err
	}
	d.show(fmt.Sprintf(`evictd's threshold: memory.available below %d MiB, which is %d MiB less than now
modest   uses  300 MiB and requests 400
guarded  uses 1000 MiB and requests 600; its priority is -100; its PodDisruptionBudget allows no eviction
greedy   uses 1500 MiB and requests 600, in ten seconds from now`, d.line>>20, headroom))
	if _, err = d.node.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	_, err = d.node.Client.SchedulingV1().PriorityClasses().Create(ctx,
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: batch}, Value: -100}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating PriorityClass %s: %w", batch, err)
	}
	guarded := node.Workload{Name: "guarded", UsesMiB: 1000, AsksMiB: 600, Change: func(spec *corev1.PodSpec) { spec.PriorityClassName = batch }}
	for _, w := range []node.Workload{{Name: "modest", UsesMiB: 300, AsksMiB: 400}, guarded} {
		if err := d.deploy(ctx, w); err != nil {
			return err
		}
	}
	if err := d.node.Budget(ctx, namespace, guarded.Name, 1); err != nil {
		return err
	}
	return d.deploy(ctx, greedy())
}

func (d *demo) deploy(ctx context.Context, w node.Workload) error {
	if err := w.Deploy(ctx, d.node, namespace); err != nil {
		return err
	}
	pod, err := d.node.Running(ctx, namespace, w.Name)
	d.pods[w.Name] = pod
	return err
}

func (d *demo) dryRun(ctx context.Context) error {
	decision, err := d.decisionFor(ctx, "WouldEvict")
	if err != nil {
		return err
	}
	d.say("greedy has taken its memory. The API server checks each request, and no pod is evicted:")
	d.tell(&decision)
	d.say("evictd rank says the same at any time, with the reason of each place:")
	return d.rank(ctx)
}

func (d *demo) forReal(ctx context.Context) error {
	// One eviction a minute, so that no second pod is evicted if this machine itself takes more memory now.
	if err := d.node.Configure(ctx, node.Policy{Signal: node.NodeMemory, Line: d.line, Limits: "{evictionsPerMinute: 1, perOwnerPerHour: 60}"}); err != nil {
		return err
	}
	decision, err := d.decisionFor(ctx, "Evicted")
	if err != nil {
		return err
	}
	d.tell(&decision)
	err = node.Until(ctx, time.Minute, func(ctx context.Context) bool {
		pods, unread := d.node.Pods(ctx, namespace, "greedy")
		return unread == nil && len(pods) == 1 && pods[0].UID != d.pods["greedy"].UID && pods[0].Status.Phase == corev1.PodRunning
	})
	if err != nil {
		return fmt.Errorf("waiting for the replacement: %w", err)
	}
	for _, name := range []string{"guarded", "modest"} {
		pods, unread := d.node.Pods(ctx, namespace, name)
		if unread != nil {
			return unread
		}
		if len(pods) != 1 || pods[0].UID != d.pods[name].UID {
			return fmt.Errorf("%s should not have been touched, and its pod %s is not the only one, or not there", name, d.pods[name].Name)
		}
	}
	d.say("The running evictd has followed the edit. greedy's controller has replaced its pod; guarded and modest still run:")
	pods, err := d.node.Kubectl(ctx, "-n", namespace, "get", "pods")
	d.show(pods)
	return err
}

func (d *demo) afterwards(ctx context.Context) error {
	if err := d.node.Client.AppsV1().Deployments(namespace).Delete(ctx, "greedy", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("ending greedy: %w", err)
	}
	message := ""
	err := node.Until(ctx, 30*time.Second, func(ctx context.Context) bool {
		list, err := d.node.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=EvictionRequested"})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		message = list.Items[0].Message
		return true
	})
	if err != nil {
		return fmt.Errorf("waiting for the Event: %w", err)
	}
	d.show(message)
	return d.metrics(ctx)
}

// metrics shows what a Prometheus would scrape.
func (d *demo) metrics(ctx context.Context) error {
	text, _, err := d.node.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		counted := strings.HasPrefix(line, "evictd_evictions_total{") && fields[len(fields)-1] != "0"
		if counted || strings.HasPrefix(line, `evictd_signal_available_bytes{signal="memory.available"`) ||
			strings.HasPrefix(line, "evictd_reaction_seconds_sum") || strings.HasPrefix(line, "evictd_reaction_seconds_count") {
			d.show(line)
		}
	}
	return nil
}

// decisionFor waits for a decision whose last request for greedy had the outcome.
func (d *demo) decisionFor(ctx context.Context, outcome string) (node.Decision, error) {
	var found node.Decision
	err := node.Until(ctx, 90*time.Second, func(ctx context.Context) bool {
		decisions, err := d.node.Decisions(ctx)
		if err != nil {
			return false
		}
		for _, decision := range decisions {
			n := len(decision.Attempts)
			if n > 0 && decision.Attempts[n-1].Outcome == outcome && decision.Attempts[n-1].UID == string(d.pods["greedy"].UID) {
				found = decision
				return true
			}
		}
		return false
	})
	if err != nil {
		return found, fmt.Errorf("waiting for a decision with outcome %s: %w", outcome, err)
	}
	return found, nil
}

// tell prints a decision: signal, refusals, victim.
func (d *demo) tell(decision *node.Decision) {
	d.show(fmt.Sprintf("%s is at %d MiB, below its %s threshold of %d MiB",
		decision.Signal, decision.Available>>20, decision.Kind, decision.Line>>20))
	for i, attempt := range decision.Attempts {
		text := fmt.Sprintf("request %d: %s, rank %d: %s", i+1, attempt.Pod, attempt.Rank, attempt.Outcome)
		if attempt.Message != "" {
			text += ": " + attempt.Message
		}
		d.show(text)
	}
	d.show(fmt.Sprintf("from the sample to the first request: %.1f ms", decision.ReactionSeconds*1000))
}

// rank runs `evictd rank` as an administrator would.
func (d *demo) rank(ctx context.Context) error {
	output, err := exec.CommandContext(ctx, d.node.Files.Binary, "rank").CombinedOutput() //nolint:gosec // the Makefile built it
	if err != nil {
		return fmt.Errorf("running evictd rank: %w: %s", err, output)
	}
	d.show(string(output))
	return nil
}

// next says what to do after the demo.
func (d *demo) next() {
	d.say("Next, on a cluster of yours:")
	d.show(`evictd doctor                             whether a node has what evictd needs: docs/cli.md
kubectl apply -f deploy/daemonset.yaml    in dry run, which evicts no pod: docs/install.md`)
}
