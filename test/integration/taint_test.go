package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/test/cluster"
)

const (
	memoryTaint = "evictd.dev/memory-pressure"
	// transition is the transition period of these tests.
	transition    = 4 * time.Second
	taintSettings = defaultSettings + "taintNode: true\nevictionPressureTransitionPeriod: 4s\n"
)

// keys returns the node's taints as key:effect.
func (w *world) keys(ctx context.Context) []string {
	w.t.Helper()
	node, err := w.client.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
	w.must(err)
	var keys []string
	for _, t := range node.Spec.Taints {
		keys = append(keys, t.Key+":"+string(t.Effect))
	}
	return keys
}

// tainted reports whether the node carries evictd's own taint.
func (w *world) tainted(ctx context.Context) bool {
	return slices.Contains(w.keys(ctx), memoryTaint+":NoSchedule")
}

// retaint changes the node's taints as another client does: it retries after a conflict.
func (w *world) retaint(ctx context.Context, change func([]corev1.Taint) []corev1.Taint) error {
	for {
		node, err := w.client.CoreV1().Nodes().Get(ctx, w.node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Spec.Taints = change(node.Spec.Taints)
		if _, err = w.client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// meddle adds and removes taints of the node four times a second, until the returned
// function is called, which returns the foreign taints that must then be present. A faster
// writer would win every conflict against evictd on a busy machine, and evictd waits a
// second at most.
func (w *world) meddle() (stop func() []string) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var left []string
	var work sync.WaitGroup
	work.Go(func() {
		pace := time.NewTicker(time.Second / 4)
		defer pace.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-pace.C
			key := fmt.Sprintf("example.org/taint-%d", i)
			err := w.retaint(context.WithoutCancel(ctx), func(taints []corev1.Taint) []corev1.Taint {
				if i >= 5 {
					taints = slices.DeleteFunc(taints, func(t corev1.Taint) bool { return t.Key == fmt.Sprintf("example.org/taint-%d", i-5) })
				}
				return append(taints, corev1.Taint{Key: key, Value: "theirs", Effect: corev1.TaintEffectPreferNoSchedule})
			})
			if err != nil {
				w.t.Errorf("the other writer: %v", err)
				return
			}
			if left = append(left, key+":PreferNoSchedule"); len(left) > 5 {
				left = left[1:]
			}
		}
	})
	return func() []string { cancel(); work.Wait(); return left }
}

// traffic records when requests for the node's taint were completed and when evictions were
// sent.
type traffic struct {
	mu    sync.Mutex
	lines []string
}

func (tr *traffic) add(line string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, line)
}

func (tr *traffic) all() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.lines)
}

// logged returns the times of evictd's log lines with a message.
func (d *daemon) logged(message string) []time.Time {
	var times []time.Time
	for line := range strings.Lines(d.log.String()) {
		var fields struct {
			Message string    `json:"msg"`
			Time    time.Time `json:"ts"`
		}
		if json.Unmarshal([]byte(line), &fields) == nil && fields.Message == message {
			times = append(times, fields.Time)
		}
	}
	return times
}

// untainted reports whether the node's taint is removed and the log says so, which takes a
// moment longer.
func (s *scene) untainted(ctx context.Context) bool {
	return !s.tainted(ctx) && len(s.daemon.logged("removed the node's taint")) > 0
}

// The taint is set before the first eviction request, until the transition period has
// passed, and not longer. Other clients' changes of the taints meanwhile are not lost, nor
// is evictd's taint. Without pressure evictd writes nothing.
func TestTaintComesBeforeTheFirstEvictionAndOutlastsThePressure(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.settings = taintSettings
	var seen traffic
	s.proxy.instead(func(_ http.ResponseWriter, r *http.Request) bool {
		if isEviction(r) {
			seen.add("eviction requested")
		}
		return false
	})
	s.proxy.after(func(r *http.Request) {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/nodes/"+s.node) {
			seen.add("patch answered")
		}
	})
	s.hand.takes(time.Second)
	s.start()
	s.within("evictd is ready", s.ready)
	stop := s.meddle()
	if s.tainted(t.Context()) {
		t.Error("the node is tainted while it is calm")
	}
	s.pressed()
	s.until("a pod was evicted", func(context.Context) bool { return len(s.hand.taken()) > 0 })
	s.until("the node is tainted", s.tainted)
	s.until("the taint is removed", s.untainted)
	ended, removed := s.daemon.logged("pressure ended"), s.daemon.logged("removed the node's taint")
	if len(ended) != 1 || len(removed) != 1 || removed[0].Sub(ended[0]) < transition-time.Second { // the last sample under pressure was up to a second before
		t.Errorf("the pressure ended at %v, the taint was removed at %v, want %v between", ended, removed, transition)
	}
	want := stop()
	got := slices.DeleteFunc(s.keys(t.Context()), func(key string) bool { return !strings.HasPrefix(key, "example.org/") })
	if !slices.Equal(got, want) {
		t.Errorf("the taints of others are %v, want %v", got, want)
	}
	if len(s.hand.taken()) != 1 {
		t.Errorf("evicted %v, want one", s.hand.taken())
	}
	s.taintCameFirst(seen.all())
	before := len(seen.all())
	s.endure(3 * time.Second)
	if after := seen.all(); len(after) != before {
		t.Errorf("a calm evictd wrote: %v", after[before:])
	}
}

// taintCameFirst fails the test unless a patch of the node was completed before the first
// eviction request. On a busy machine the API server may need longer than the second that
// evictd waits. Then evictd must have waited that long, and its decision must say that the
// taint was missing.
func (s *scene) taintCameFirst(lines []string) {
	s.t.Helper()
	patch, eviction := lastBefore(lines, "patch answered", "eviction requested"), slices.Index(lines, "eviction requested")
	if eviction < 0 {
		s.t.Errorf("the order: %v; want an eviction", lines)
		return
	}
	tainted, intents := s.daemon.logged("tainted the node"), s.daemon.logged("sending an eviction request")
	if len(tainted) != 1 || len(intents) == 0 {
		s.t.Errorf("tainted at %v, first request at %v", tainted, intents)
		return
	}
	if patch >= 0 && !tainted[0].After(intents[0]) {
		return
	}
	waited := intents[0].Sub(s.daemon.logged("pressure began")[0])
	if waited < time.Second-50*time.Millisecond || !strings.Contains(s.daemon.log.String(), "the node may not carry "+memoryTaint) { // the log line follows the decision
		s.t.Errorf("evicted %v after the pressure began, without the taint; want the taint, or a second's wait and a note: %v", waited, lines)
	}
}

// lastBefore returns the index of a line before the first of another; -1 when there is none.
func lastBefore(lines []string, line, other string) int {
	end := slices.Index(lines, other)
	if end < 0 {
		end = len(lines)
	}
	return slices.Index(lines[:end], line)
}

// kill -9 in the middle leaves the taint. The next evictd removes it once the node is known
// to have no pressure: at once where the taint is switched off, otherwise after a transition
// period.
func TestTaintIsFoundAgainAfterAKill(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{"still switched on": taintSettings, "switched off": defaultSettings} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.settings = taintSettings
			s.hand.takes(time.Hour)
			s.start()
			s.within("evictd is ready", s.ready)
			s.pressed()
			s.until("the node is tainted and a pod is in flight", func(ctx context.Context) bool {
				return s.tainted(ctx) && len(s.hand.taken()) > 0
			})
			s.daemon.kill()
			if !s.tainted(t.Context()) {
				t.Fatal("the taint has gone with the process")
			}
			s.host.free(totalMiB / 2)
			s.settings = settings
			begun := time.Now()
			s.start()
			s.until("the next process removes the taint", s.untainted)
			removed := s.daemon.logged("removed the node's taint")
			if len(removed) != 1 {
				t.Fatalf("removed at %v", removed)
			}
			if settings == taintSettings && removed[0].Sub(begun) < transition {
				t.Errorf("removed after %v, before the node is known to be calm", removed[0].Sub(begun))
			}
		})
	}
}

func TestTaintIsRemovedWhenItIsSwitchedOff(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]string{
		"taintNode: false": defaultSettings,
		"dryRun: true":     taintSettings + "dryRun: true\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.settings = taintSettings
			s.hand.takes(time.Hour)
			s.start()
			s.within("evictd is ready", s.ready)
			s.pressed()
			s.until("the node is tainted", s.tainted)
			s.must(os.WriteFile(s.daemon.config, configured(settings), 0o600))
			if settings == defaultSettings {
				s.until("the taint is removed although the pressure continues", func(ctx context.Context) bool { return !s.tainted(ctx) })
				return
			}
			s.until("the taint is removed although the pressure continues, and would be set", func(ctx context.Context) bool {
				return !s.tainted(ctx) && strings.Contains(s.daemon.log.String(), `"taints":["`+memoryTaint+`"],"dry_run":true`)
			})
		})
	}
}

// quiet records only the keeper's faults.
type quiet struct{ tb testing.TB }

func (quiet) Tainted([]string, []string, bool) {}
func (q quiet) TaintError(err error)           { q.tb.Log(err) }

// keeper maintains a node's taints with those credentials until the context ends.
func (f *fenced) keeper(ctx context.Context, as *rest.Config, node string) (*taint.Keeper, <-chan struct{}) {
	f.t.Helper()
	k := taint.New(taint.Options{Nodes: f.as(as).CoreV1().Nodes(), Node: node, Recorder: quiet{f.t}})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	return k, ended
}

// The overlay's rights, confined by the shipped policy to the own node.
func TestTaintOverlay(t *testing.T) {
	f := newFenced(t) // not parallel: account, role and policies are the cluster's
	settled := func(k *taint.Keeper, w taint.Wanted) error {
		ctx, cancel := context.WithTimeout(t.Context(), cluster.Patiently(10*time.Second))
		defer cancel()
		k.Want(w)
		return k.Settled(ctx)
	}
	memory := taint.Wanted{Pressures: taint.Memory}
	early, end := context.WithCancel(t.Context())
	k, ended := f.keeper(early, f.here, f.near)
	refused(t, "without the overlay", settled(k, memory), "cannot patch")
	end() // with the overlay it would taint the node at its next retry
	<-ended
	const lacks, may = "taintNode is true and the account lacks rights for it", "taintNode is true: the node is tainted"
	f.says("taintNode: true\n", lacks, may, "the right to patch nodes is missing; apply deploy/overlays/taint")
	f.confine()
	const overlay = "../../deploy/overlays/taint/taint.yaml"
	f.kubectl(t.Context(), "", "apply", "-f", overlay)
	t.Cleanup(func() { f.kubectl(context.Background(), "", "delete", "-f", overlay) })
	f.must(f.retaint(t.Context(), func(taints []corev1.Taint) []corev1.Taint {
		return append(taints, corev1.Taint{Key: memoryTaint, Value: "theirs", Effect: corev1.TaintEffectPreferNoSchedule})
	}))
	own, _ := f.keeper(t.Context(), f.here, f.near)
	f.until("evictd may taint its own node", func(context.Context) bool { return settled(own, memory) == nil })
	if !f.tainted(t.Context()) {
		t.Errorf("the taints: %v, want evictd's own", f.keys(t.Context()))
	}
	f.says("taintNode: true\n", may, lacks, "")
	theirs, _ := f.keeper(t.Context(), f.here, f.far)
	refused(t, "another node", settled(theirs, memory), "evictd-taints-own-node")
	k, _ = f.keeper(t.Context(), f.here, f.near)
	node, err := f.client.CoreV1().Nodes().Get(t.Context(), f.near, metav1.GetOptions{})
	f.must(err)
	k.Found(node)
	f.must(settled(k, taint.Wanted{}))
	if got := f.keys(t.Context()); f.tainted(t.Context()) || !slices.Contains(got, memoryTaint+":PreferNoSchedule") {
		t.Errorf("the taints at the end: %v, want evictd's own gone and the other of the same key there", got)
	}
}

// Each overlay can be combined with the base in a kustomization.
func TestOverlaysAddTheirRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	own := t.TempDir()
	deploy, err := filepath.Abs("../../deploy")
	w.must(err)
	relative, err := filepath.Rel(own, deploy)
	w.must(err)
	list := fmt.Sprintf("resources: [%[1]s, %[1]s/overlays/taint, %[1]s/overlays/permits]\n", relative)
	w.must(os.WriteFile(filepath.Join(own, "kustomization.yaml"), []byte(list), 0o600))
	all := w.kubectl(t.Context(), "", "kustomize", own)
	for _, one := range []string{"kind: DaemonSet", "name: evictd-taints-own-node", "name: evictd-taint\n", "name: evictd-permits\n"} {
		if !strings.Contains(all, one) {
			t.Errorf("%q is not in:\n%s", one, all)
		}
	}
}

// The rights of the permits overlay suffice, and apply in evictd's own namespace only.
func TestPermitsOverlay(t *testing.T) {
	f := newFenced(t) // not parallel: account and role are the cluster's
	const overlay = "../../deploy/overlays/permits/permits.yaml"
	const settings, lacks = "evictionPermits: {perWorkload: 1}\n", "evictionPermits is set and the account lacks rights for it"
	const may = "evictionPermits is set: a pod is evicted when a permit of its workload, and one of the cluster, is free"
	f.says(settings, lacks, may, "the right to get leases and to list leases and to create leases and to update leases and to delete leases is missing; apply deploy/overlays/permits")
	f.kubectl(t.Context(), "", "apply", "-f", overlay)
	t.Cleanup(func() { f.kubectl(context.Background(), "", "delete", "-f", overlay) })
	own := &permitWorld{world: f.again(t).world}
	own.client, own.namespace = f.as(f.here), account
	request := victim("one")
	n := own.node(t.Context(), f.near, 0, true)
	f.until("evictd may acquire a permit", func(ctx context.Context) bool { return n.Acquire(ctx, request).Verdict == "Granted" })
	own.outlast(n)
	f.until("evictd may give it back", func(ctx context.Context) bool {
		n.ReleaseEnded(never, never)
		return len(own.leases(ctx)) == 0
	})
	elsewhere := f.as(f.here).CoordinationV1().Leases(f.namespace)
	_, err := elsewhere.List(t.Context(), metav1.ListOptions{})
	refused(t, "Leases of another namespace", err, "cannot list")

	// The namespace of the started evictd is that of the test.
	text, err := os.ReadFile(overlay)
	f.must(err)
	f.kubectl(t.Context(), strings.ReplaceAll(string(text), "namespace: evictd\n  labels", "namespace: "+f.namespace+"\n  labels"), "apply", "-f", "-")
	f.until("the API server has read the role", func(ctx context.Context) bool {
		_, err := elsewhere.List(ctx, metav1.ListOptions{})
		return err == nil
	})
	f.says(settings, may, lacks, "")
}
