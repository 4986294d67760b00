package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// documentsOf runs an agent and returns its documents, each asked for so long after the one before. They have
// the configuration of a node where all pods may be evicted.
func documentsOf(t *testing.T, a *Agent, disk bool, after ...time.Duration) []*status.Document {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	c := config.Default()
	c.Protect.WithinRequests = config.WithinRequestsNever
	var documents []*status.Document
	for _, wait := range after {
		time.Sleep(wait)
		d, err := a.Status(ctx, disk)
		if err != nil {
			t.Fatal(err)
		}
		d.Configuration = c
		documents = append(documents, d)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return documents
}

// ranked returns the names of the candidates of a document, in order, and the protected pods.
func ranked(d *status.Document, signal pressure.Signal) (candidates []string, protected map[string]string) {
	d.Rank(signal)
	protected = map[string]string{}
	if d.Ranking == nil {
		return nil, map[string]string{"": d.Unranked}
	}
	for _, e := range d.Ranking.Candidates {
		candidates = append(candidates, e.Name)
	}
	for _, e := range d.Ranking.Protected {
		protected[e.Name] = e.Protection
	}
	return candidates, protected
}

// TestStatusTellsWhatTheLoopKnows: under pressure the document has the signal and where its thresholds
// stand, what is in flight, and what was refused; and it ranks by all of them.
func TestStatusTellsWhatTheLoopKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("blocked", 400, 100)
		n.run("greedy", 300, 100)
		n.run("next", 250, 100)
		n.stubborn = true
		n.answer = func(r evict.Request) evict.Result {
			if r.Name == "blocked" {
				return evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		d := documentsOf(t, newAgent(t, n, hardPolicy()), false, time.Second)[0]
		if len(d.Signals) != 1 || *d.Signals[0].Available != 50*mebi || !d.Signals[0].Under || !d.Signals[0].Thresholds[0].Holds || d.Signals[0].Thresholds[0].Since.IsZero() {
			t.Errorf("signals %+v", d.Signals)
		}
		if len(d.InFlight) != 1 || d.InFlight[0].Pod != "shop/greedy" || d.InFlight[0].Signal != "memory.available" || d.InFlight[0].Expected.At(pressure.MemoryAvailable) != 300*mebi {
			t.Errorf("in flight %+v", d.InFlight)
		}
		if len(d.BackOffs) != 1 || d.BackOffs[0].Name != "shop/blocked" || !strings.Contains(d.BackOffs[0].Why, "PodDisruptionBudget web was BlockedByBudget") || !d.BackOffs[0].Until.After(d.Time) {
			t.Errorf("back-offs %+v", d.BackOffs)
		}
		if age := d.Time.Sub(d.LastTick); !d.Enforcement.On || age < 0 || age > time.Second {
			t.Errorf("enforcement %+v, looked %v before", d.Enforcement, age)
		}
		candidates, protected := ranked(d, pressure.MemoryAvailable)
		if diff := cmp.Diff([]string{"next"}, candidates); diff != "" {
			t.Errorf("candidates (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[string]string{"blocked": string(rank.ProtectedBackingOff), "greedy": string(rank.ProtectedTerminating)}, protected); diff != "" {
			t.Errorf("protected (-want +got):\n%s", diff)
		}
	})
}

// TestStatusOfARequestInDoubt: its pod is in flight in the document, and keeps its place in the ranking.
func TestStatusOfARequestInDoubt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("silent", 950, 100)
		n.answer = func(evict.Request) evict.Result {
			return evict.Result{Outcome: evict.Unconfirmed, Pending: true, Sent: time.Now()}
		}
		d := documentsOf(t, newAgent(t, n, hardPolicy()), false, time.Second)[0]
		if len(d.InFlight) != 1 || !d.InFlight[0].InDoubt || d.InFlight[0].Pod != "shop/silent" {
			t.Errorf("in flight %+v", d.InFlight)
		}
		if candidates, _ := ranked(d, pressure.MemoryAvailable); len(candidates) != 1 {
			t.Errorf("candidates %v", candidates)
		}
	})
}

// TestStatusRanksForEachSignal: a calm node is ranked by what its pods use now, of the disks too where
// that is asked for: then they are measured, once for a while.
func TestStatusRanksForEachSignal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(2000)
		n.run("self", 500, 0)
		n.run("modest", 100, 200)
		n.run("greedy", 300, 100)
		n.run("unread", 300, 0)
		n.pods["uid-unread"].noCgroup = true
		disk := &fakeDisk{node: n, slow: time.Second, measured: map[string]usage.DiskUse{
			"uid-modest": measuretest.DiskUse(9, 9, 9, 9), "uid-greedy": measuretest.DiskUse(5, 5, 5, 5),
		}}
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Disk, o.Self = disk, nodepods.Self{UID: "uid-self"} })
		documents := documentsOf(t, a, true, time.Minute, time.Second)
		for signal, want := range map[pressure.Signal][]string{
			pressure.MemoryAvailable: {"greedy", "modest"},
			pressure.PIDAvailable:    {"greedy", "modest"},
			pressure.NodeFSAvailable: {"modest", "greedy"},
		} {
			candidates, protected := ranked(documents[1], signal)
			if diff := cmp.Diff(want, candidates); diff != "" {
				t.Errorf("%v (-want +got):\n%s", signal, diff)
			}
			if diff := cmp.Diff(map[string]string{"self": string(rank.ProtectedSelf), "unread": string(rank.ProtectedNoUsageSample)}, protected); diff != "" {
				t.Errorf("%v, protected (-want +got):\n%s", signal, diff)
			}
		}
		if disk.asked.Load() != 1 || documents[0].DiskMeasured.IsZero() {
			t.Errorf("measured %d times for two documents", disk.asked.Load())
		}
	})
}

// TestStatusWithoutAReading says why nothing can be ranked, and not that there is nothing.
func TestStatusWithoutAReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("a", 1, 0)
		n.unread = errPlanted()
		a := newAgent(t, n, hardPolicy(), func(o *Options) {
			o.Sampler, o.Disk = withUnknown{n, pressure.MemoryAvailable}, &fakeDisk{node: n, err: errPlanted()}
		})
		d := documentsOf(t, a, true, time.Second)[0]
		for signal, want := range map[pressure.Signal]string{
			pressure.MemoryAvailable: "reading the pods' cgroups: planted", pressure.NodeFSAvailable: "measuring the pods' disk use: planted",
		} {
			if candidates, why := ranked(d, signal); candidates != nil || why[""] != want {
				t.Errorf("%v: %v, %v; want none, and %q", signal, candidates, why, want)
			}
		}
		if s := d.Signals[0]; s.State != "Unknown" || s.Available != nil || s.Reason != "planted" {
			t.Errorf("the signal is %+v", s)
		}
	})
}

// TestStatusIsCheap: who asks often makes the loop read the pods once a second, and many finished pods are
// counted and not listed.
func TestStatusIsCheap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		for i := range status.MostFinished + 3 {
			n.run(fmt.Sprintf("finished-%03d", i), 0, 0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		}
		n.run("runs", 1, 0)
		wait := make([]time.Duration, 20) // 1.9 s
		for i := range wait {
			wait[i] = 100 * time.Millisecond
		}
		documents := documentsOf(t, newAgent(t, n, hardPolicy()), false, wait...)
		if n.collects > 3 { // one of them warms up
			t.Errorf("%d documents read the pods %d times", len(documents), n.collects)
		}
		d := documents[0]
		if len(d.Pods) != status.MostFinished+1 || d.FinishedOmitted != 3 || d.Pods[status.MostFinished].Name != "runs" {
			t.Errorf("%d pods, and %d more", len(d.Pods), d.FinishedOmitted)
		}
	})
}

// TestStatusOfALoopThatHangs: who asks is not kept waiting.
func TestStatusOfALoopThatHangs(t *testing.T) {
	t.Parallel()
	a := newAgent(t, newFakeNode(1000), hardPolicy()) // it does not run
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no answer within 15s"))
	if d, err := a.Status(ctx, false); d != nil || err == nil || err.Error() != "asking evictd's loop: no answer within 15s" {
		t.Errorf("%+v, %v", d, err)
	}
}

// BenchmarkStatus110 is what a document costs the loop, beside reading the cgroups.
func BenchmarkStatus110(b *testing.B) {
	a := newBenchAgent(b, newBenchNode(110, 16<<10))
	a.tick(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		a.documents.last = nil
		a.document(a.options.Clock.Now())
	}
}
