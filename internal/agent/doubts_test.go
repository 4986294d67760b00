package agent

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// hooked is a fakeNode with a filesystem that is short, before whose API server a webhook
// hangs for the requests for some pods.
type hooked struct {
	*fakeNode
	disk  bool            // whether the filesystem is short
	hangs map[string]bool // by the pod's name
	tried []string        // the pods whose requests hung
	late  time.Duration   // when such a request is carried out all the same; 0: never
}

// newHooked is a node under soft disk pressure, which is under hard memory pressure after
// two seconds. Both is large's most, and a webhook hangs for it.
func newHooked() *hooked {
	n := newFakeNode(1000)
	n.run("large", 300, 10)
	n.run("next", 290, 10)
	n.run("small", 100, 10)
	n.ends = 20 * time.Second
	n.after(2*time.Second, func() { n.host = 230 * mebi })
	return &hooked{fakeNode: n, disk: true, hangs: map[string]bool{"large": true}}
}

func (h *hooked) Sample(now time.Time) pressure.Sample {
	sample := h.fakeNode.Sample(now)
	h.mu.Lock()
	defer h.mu.Unlock()
	available := int64(500)
	if h.disk {
		available = 50
	}
	sample.Observations[pressure.NodeFSAvailable] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
	return sample
}

func (h *hooked) Evict(ctx context.Context, r evict.Request) evict.Result {
	h.mu.Lock()
	hangs := h.hangs[r.Name]
	if hangs {
		h.tried = append(h.tried, r.Name)
	}
	h.mu.Unlock()
	if !hangs {
		return h.fakeNode.Evict(ctx, r)
	}
	sent := time.Now()
	if h.late > 0 {
		h.after(h.late, func() { h.terminate(r.UID) })
	}
	result := evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Stays: true, Sent: sent}
	select {
	case <-time.After(evict.RequestTimeout):
	case <-ctx.Done():
		result.Withdrawn, result.Message = true, context.Cause(ctx).Error()
	}
	return result
}

func (h *hooked) policy() Policy {
	policy := softAndHard()
	policy.Thresholds = []pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.1), Hard: true},
		{Signal: pressure.NodeFSAvailable, Quantity: pressure.Absolute(100)},
	}
	return policy
}

// parts makes the node an agent's.
func (h *hooked) parts(o *Options) {
	o.Sampler, o.Evictor = h, h
	o.Disk = &fakeDisk{node: h.fakeNode, measured: map[string]usage.DiskUse{
		"uid-large": measuretest.DiskUse(400, 1, 1, 1), "uid-next": measuretest.DiskUse(10, 1, 1, 1), "uid-small": measuretest.DiskUse(200, 1, 1, 1),
	}}
}

// firstVictim returns the first pod that was evicted since a time, and after how long; "" when no
// pod was.
func (n *fakeNode) firstVictim(since time.Time) (string, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.decisions {
		if v := n.decisions[i].Victim(); v != nil && !v.Result.Sent.Before(since) {
			return v.Entry.Pod.Name, v.Result.Sent.Sub(since)
		}
	}
	return "", 0
}

// TestFaultDoubtAboutADiskHoldsUpNoMemoryEviction: a soft request for a disk hangs in a webhook,
// and is withdrawn because the hard threshold of memory is met. Its outcome is unknown: that holds
// decisions about the disk, and none about memory.
func TestFaultDoubtAboutADiskHoldsUpNoMemoryEviction(t *testing.T) {
	t.Parallel()
	for name, setUp := range map[string]func(*hooked){
		"its pod uses the most memory, too": func(*hooked) {},
		"its pod uses less memory":          func(h *hooked) { h.pods["uid-next"].memory = 310 * mebi },
		"its pod is no candidate any more": func(h *hooked) {
			h.after(1900*time.Millisecond, func() { h.changed("large", func(p *corev1.Pod) { p.OwnerReferences = nil }) })
		},
		"it cannot be read again": func(h *hooked) { h.unlooked = errPlanted() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHooked()
				setUp(h)
				start := time.Now()
				live(t, h.fakeNode, nil, h.policy(), 30*time.Second, h.parts)
				if victim, after := h.firstVictim(start); victim != "next" || after > 4*time.Second {
					t.Errorf("the first victim is %q after %v, want next at once; holds: %v", victim, after, h.holds())
				}
			})
		})
	}
}

// The decisions about a disk wait for the request in doubt, again and again. A memory shortage
// that comes later does not wait with them.
func TestFaultRestOfADoubtRestsNoOtherDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHooked()
		h.after(1900*time.Millisecond, func() { h.changed("large", func(p *corev1.Pod) { p.OwnerReferences = nil }) })
		h.ends = time.Second // the first victim's
		again := 20*time.Second + 300*time.Millisecond
		h.after(again, func() { h.host += 290 * mebi })
		start := time.Now()
		live(t, h.fakeNode, nil, h.policy(), 30*time.Second, h.parts)
		if victim, after := h.firstVictim(start.Add(again)); victim != "small" || after > 2*time.Second {
			t.Errorf("the second victim is %q after %v, want small at once; holds: %v", victim, after, h.holds())
		}
	})
}

// TestDoubtAboutADiskThatWasCarriedOutCountsForMemory: the request in doubt was carried out, and
// the watch is behind: reading the pod shows it. What the pod frees counts, and no other pod is
// evicted.
func TestDoubtAboutADiskThatWasCarriedOutCountsForMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHooked()
		h.behind, h.late = true, 1990*time.Millisecond
		live(t, h.fakeNode, nil, h.policy(), 20*time.Second, h.parts)
		h.wantVictims(t)
		recorded := slices.ContainsFunc(h.decisions, func(d decide.Decision) bool {
			return d.Pressure.Threshold.Signal == pressure.NodeFSAvailable && d.Victim() != nil && d.Victim().Entry.Pod.Name == "large"
		})
		if !recorded {
			t.Errorf("that large was evicted for the disk is not on record: %+v", h.decisions)
		}
	})
}

// TestPodInDoubtIsEvictedWhereThereIsNoOtherCandidate: if there is no other candidate, a pod whose
// request about a disk is in doubt is evicted because of memory, too. It counts once.
func TestPodInDoubtIsEvictedWhereThereIsNoOtherCandidate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHooked()
		for _, name := range []string{"next", "small"} {
			h.changed(name, func(p *corev1.Pod) { p.OwnerReferences = nil })
		}
		h.ends = 0
		h.after(1900*time.Millisecond, func() { h.hangs = nil })
		start, f := time.Now(), &file{t: t}
		live(t, h.fakeNode, f, h.policy(), 20*time.Second, h.parts)
		if victim, after := h.firstVictim(start); victim != "large" || after > 4*time.Second {
			t.Errorf("the first victim is %q after %v, want large at once; holds: %v", victim, after, h.holds())
		}
		if kept := f.load(); len(kept.Cooldown.Accepted) != 1 || len(inDoubt(kept)) > 0 {
			t.Errorf("%d count against the limits and %d are in doubt, want 1 and none", len(kept.Cooldown.Accepted), len(inDoubt(kept)))
		}
	})
}

// TestASecondDoubtForgetsNoFirst: a request about memory ends in doubt while one about a disk is in
// doubt. The next process knows both, and evicts no pod in place of either.
func TestASecondDoubtForgetsNoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, f := newHooked(), &file{t: t}
		h.answer = lost
		live(t, h.fakeNode, f, h.policy(), 2900*time.Millisecond, h.parts)
		for process := range 2 {
			var pods []string
			for _, r := range inDoubt(f.load()) {
				pods = append(pods, r.Attempt.Entry.Pod.Name+" "+r.Pressure.Threshold.Signal.String())
			}
			slices.Sort(pods)
			if diff := cmp.Diff([]string{"large nodefs.available", "next memory.available"}, pods); diff != "" {
				t.Errorf("in doubt after process %d (-want +got):\n%s", process, diff)
			}
			live(t, h.fakeNode, f, h.policy(), time.Millisecond, h.parts)
		}
		h.hangs, h.answer, h.evictions = nil, nil, nil
		live(t, h.fakeNode, f, h.policy(), 10*time.Second, h.parts)
		h.wantVictims(t, "next", "large")
	})
}
