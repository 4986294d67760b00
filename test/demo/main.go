// Command demo shows evictd on a real node, in the terminal: a real kubelet, real pods that
// use real memory, a budget that refuses, an eviction, a replacement. It cleans up after
// itself. `make demo` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// headroom is how many MiB below the available memory the demo's threshold is, so that a few
// pods can cross it on a machine of any size.
const headroom = 2100

// namespace is where the demo's pods run.
const namespace = "shop"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	files, err := node.FilesFromEnvironment()
	if err != nil {
		return err
	}
	d := &demo{started: time.Now(), pods: map[string]corev1.Pod{}}
	d.say("A real Kubernetes node comes up on this machine, in a folder of its own. The rest takes one to three minutes: an edit of a ConfigMap needs up to one to reach its pod.")
	d.node, err = node.Start(ctx, files, os.Stdout)
	if err != nil {
		return err
	}
	defer func() {
		d.say("Everything is removed again: pods, node, cgroups, mounts.")
		err = errors.Join(err, d.node.Stop(context.WithoutCancel(ctx)))
	}()
	for _, step := range []func(context.Context) error{d.install, d.press, d.dryRun, d.forReal, d.afterwards} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// demo is one run of the demo.
type demo struct {
	node    *node.Node
	started time.Time
	line    int64
	pods    map[string]corev1.Pod // by the name of their Deployment
}

// say prints a sentence with the time since the start.
func (d *demo) say(format string, arguments ...any) {
	fmt.Printf("\n[%5.1fs] %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, arguments...))
}

// show prints a tool's output, indented.
func show(text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		fmt.Print("         " + line)
	}
	fmt.Println()
}

func (d *demo) install(ctx context.Context) error {
	d.say("kubectl apply -f deploy/daemonset.yaml, as it ships: in dry run.")
	if err := d.node.Deploy(ctx); err != nil {
		return err
	}
	pods, err := d.node.Kubectl(ctx, "-n", node.Namespace, "get", "pods", "-o", "wide")
	show(pods)
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
	d.say("The threshold, for the demo: memory.available below %d MiB, which is %d MiB less than there is now.", d.line>>20, headroom)
	if _, err := d.node.Kubectl(ctx, "create", "namespace", namespace); err != nil {
		return err
	}
	d.say("Three Deployments: modest stays within its request, guarded has a PodDisruptionBudget that allows nothing, greedy has none.")
	for _, w := range []node.Workload{
		{Name: "modest", UsesMiB: 300, AsksMiB: 400},
		{Name: "guarded", UsesMiB: 1200, AsksMiB: 100},
		{Name: "greedy", UsesMiB: 1500, AsksMiB: 600, Flags: []string{"--start-delay=10s"}},
	} {
		if err := w.Deploy(ctx, d.node, namespace); err != nil {
			return err
		}
		pod, err := d.node.Running(ctx, namespace, w.Name)
		if err != nil {
			return err
		}
		if w.Name == "guarded" {
			if err := d.node.Budget(ctx, namespace, w.Name, 1); err != nil {
				return err
			}
		}
		d.pods[w.Name] = pod
	}
	return nil
}

func (d *demo) dryRun(ctx context.Context) error {
	d.say("greedy fills its memory now. evictd is in dry run: the API server checks every request and no pod is evicted.")
	decision, err := d.decisionFor(ctx, "WouldEvict")
	if err != nil {
		return err
	}
	d.tell(&decision)
	d.say("evictd rank: which pod would be evicted first right now, and why.")
	return d.rank(ctx)
}

func (d *demo) forReal(ctx context.Context) error {
	d.say("Dry run off: dryRun: false in the ConfigMap. The running evictd follows the edit. One eviction a minute " +
		"(limits.evictionsPerMinute: 1), so that no second pod is evicted if this machine itself takes more memory now.")
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
	d.say("Its controller has replaced it; guarded and modest were not touched.")
	pods, err := d.node.Kubectl(ctx, "-n", namespace, "get", "pods")
	show(pods)
	return err
}

func (d *demo) afterwards(ctx context.Context) error {
	if err := d.node.Client.AppsV1().Deployments(namespace).Delete(ctx, "greedy", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("ending greedy: %w", err)
	}
	d.say("The pod has gone, and its Event still tells why.")
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
	show(message)
	return d.metrics(ctx)
}

// metrics shows what a Prometheus would scrape.
func (d *demo) metrics(ctx context.Context) error {
	d.say("What a Prometheus scrapes (an extract):")
	text, _, err := d.node.Get(ctx, "/metrics")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		counted := strings.HasPrefix(line, "evictd_evictions_total{") && fields[len(fields)-1] != "0"
		if counted || strings.HasPrefix(line, `evictd_signal_available_bytes{signal="memory.available"`) ||
			strings.HasPrefix(line, "evictd_reaction_seconds_sum") || strings.HasPrefix(line, "evictd_reaction_seconds_count") {
			show(line)
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
	d.say("Decision %d: %s is at %d MiB, below its %s threshold of %d MiB.",
		decision.ID, decision.Signal, decision.Available>>20, decision.Kind, decision.Line>>20)
	for i, attempt := range decision.Attempts {
		text := fmt.Sprintf("request %d: %s, rank %d: %s", i+1, attempt.Pod, attempt.Rank, attempt.Outcome)
		if attempt.Message != "" {
			text += ": " + attempt.Message
		}
		show(text)
	}
	show(fmt.Sprintf("from the sample to the first request: %.1f ms", decision.ReactionSeconds*1000))
}

// rank runs `evictd rank` as an administrator would.
func (d *demo) rank(ctx context.Context) error {
	if err := d.node.WriteRankConfiguration(); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, d.node.Files.Binary, d.node.RankArguments()...).CombinedOutput() //nolint:gosec // the Makefile built it
	if err != nil {
		return fmt.Errorf("running evictd rank: %w: %s", err, output)
	}
	show(string(output))
	return nil
}
