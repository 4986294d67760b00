package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// listless is a fakeNode whose API server does not list one of the pods.
type listless struct {
	*fakeNode
	pod    string
	listed func() bool // nil: never
}

func (f listless) List() []*nodepods.Pod {
	if f.listed != nil && f.listed() {
		return f.fakeNode.List()
	}
	return slices.DeleteFunc(f.fakeNode.List(), func(p *nodepods.Pod) bool { return p.Name == f.pod })
}

// forcedNode is short of a little memory; a large pod is not listed any more, and still runs.
func forcedNode() *fakeNode {
	n := newFakeNode(1000)
	n.run("forced", 500, 100)
	n.run("next", 450, 100)
	return n
}

func watchForgotten(t *testing.T, n *fakeNode, during time.Duration, listed func() bool) *Agent {
	t.Helper()
	a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Pods = listless{n, "forced", listed} })
	runFor(t, a, during)
	return a
}

// TestInvariant09ForgottenPodIsReliedOn: a pod that the API server has deleted while the node still
// runs it is in flight until it has ended, from the first decision on, which may be the first of a
// process.
func TestInvariant09ForgottenPodIsReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := forcedNode()
		n.after(20*time.Second, func() { delete(n.pods, "uid-forced") })
		watchForgotten(t, n, 40*time.Second, nil)
		n.wantVictims(t)
		if diff := cmp.Diff([]decide.Hold{decide.HoldReclaimInProgress}, n.holds()); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		if way := n.decisions[0].InFlight; len(way) != 1 || way[0].Key() != "uid-forced" || way[0].Expected.At(pressure.MemoryAvailable) != 500*mebi {
			t.Errorf("in flight: %+v, want the forgotten pod by its UID and what it holds", way)
		}
	})
}

// TestForgottenPodThatNeverEnds: a cgroup that is never removed holds a node for one clock, and is
// no victim.
func TestForgottenPodThatNeverEnds(t *testing.T) {
	t.Parallel()
	for during, want := range map[time.Duration][]string{
		decide.HardPatience - time.Second:   {},
		decide.HardPatience + 2*time.Second: {"next"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := forcedNode()
			n.stubborn = true
			a := watchForgotten(t, n, during, nil)
			n.wantVictims(t, want...)
			if a.victims.Terminates("uid-forced") {
				t.Error("it counts as a victim")
			}
		})
	}
}

// A new pod may have its cgroup before the watch tells of it. It is waited for until the
// watch does, and then it is a pod like any other.
func TestNewPodIsNotTakenForAForgottenOneForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := forcedNode()
		n.stubborn = true
		start := time.Now()
		watchForgotten(t, n, 5*time.Second, func() bool { return time.Since(start) > 300*time.Millisecond })
		n.wantVictims(t, "forced")
		if d := n.last(t); len(d.InFlight) != 1 || d.InFlight[0].Name == "" || d.InFlight[0].Signal == "" {
			t.Errorf("in flight: %+v, want it as a victim of evictd's", d.InFlight)
		}
		if took := n.decisions[1].Time.Sub(start); took > 500*time.Millisecond {
			t.Errorf("it was evicted after %v, want as soon as it was listed", took)
		}
	})
}

// A static pod's cgroup has a UID that the API server does not know; the list tells it all
// the same.
func TestStaticPodIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := forcedNode()
		mirror := n.pods["uid-forced"].api
		mirror.UID = "uid-of-the-mirror"
		mirror.Annotations = map[string]string{"kubernetes.io/config.hash": "uid-forced", "kubernetes.io/config.mirror": "uid-forced"}
		watch(t, n, hardPolicy(), time.Second)
		n.wantVictims(t, "next")
	})
}

// A victim that the API server forgets at once is relied on for what it has left.
func TestForgottenVictimIsReliedOnForWhatItHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := forcedNode()
		n.stubborn = true
		n.after(2*time.Second, func() { n.pods["uid-forced"].memory, n.host = 10*mebi, 490*mebi })
		asked := func() bool { return len(n.victims()) == 0 }
		watchForgotten(t, n, 4*time.Second, asked)
		n.wantVictims(t, "forced", "next")
	})
}
