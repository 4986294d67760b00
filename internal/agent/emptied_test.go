package agent

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/usage"
)

// emptied is a fakeNode of which the cgroup of one pod is there and uses nothing, since a
// moment.
type emptied struct {
	*fakeNode
	pod     string // its UID
	isEmpty func() bool
}

func (e emptied) Collect(into []usage.Pod) ([]usage.Pod, error) {
	read, err := e.fakeNode.Collect(into)
	for i := range read {
		if read[i].UID == e.pod && e.isEmpty() {
			read[i] = usage.Pod{UID: e.pod, TasksKnown: true, Unused: true}
		}
	}
	return read, err
}

// A victim whose processes have ended and whose volume does not unmount was relied on for what
// it had held, to its deadline, while a neighbour took the node.
func TestFaultEmptiedCgroupIsNotReliedOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		leave  func(n *fakeNode)
		listed bool
	}{
		"evictd's own":      {leave: func(*fakeNode) {}, listed: true},
		"that others end":   {leave: func(n *fakeNode) { n.terminate("uid-stuck") }, listed: true},
		"that is forgotten": {leave: func(*fakeNode) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, start := newFakeNode(1000), time.Now()
				n.stubborn = true
				n.run("stuck", 500, 0)
				n.run("greedy", 450, 10)
				test.leave(n)
				empty := func() bool { return between(start, 5*time.Second, time.Hour) }
				a := newAgent(t, n, hardPolicy(), func(o *Options) {
					o.Cgroups = emptied{n, "uid-stuck", empty}
					if !test.listed {
						o.Pods = listless{n, "stuck", nil}
					}
				})
				n.after(5*time.Second, func() { n.pods["uid-stuck"].memory, n.host = 0, 500*mebi })
				runFor(t, a, 7*time.Second)
				got := n.victims()
				if len(got) == 0 || got[len(got)-1] != "greedy" {
					t.Errorf("evicted %v; want greedy at the end", got)
				}
			})
		})
	}
}

// TestEmptiedCgroupIsNoCandidate: a cgroup that uses nothing does not show what its pod uses: the
// pod is no candidate.
func TestEmptiedCgroupIsNoCandidate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("new", 10, 0, func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending })
		n.host = 950 * mebi
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Cgroups = emptied{n, "uid-new", func() bool { return true }} })
		runFor(t, a, time.Second)
		n.wantVictims(t)
		if d := n.last(t); d.Hold != decide.HoldNoCandidates {
			t.Errorf("hold %s (%s), want %s", d.Hold, d.Detail, decide.HoldNoCandidates)
		}
	})
}
