package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// A victim is relied on for what the signal measures: where active page cache
// counts as used, it counts as freed too.
func TestVictimIsReliedOnInTheSignalsMeasure(t *testing.T) {
	t.Parallel()
	for definition, want := range map[pressure.MemoryDefinition][]string{
		pressure.WorkingSet: {"cached"},
		pressure.Kernel:     {"cached", "second"},
	} {
		t.Run(definition.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends, n.countsCache = 25*time.Second, definition == pressure.WorkingSet
				n.run("cached", 30, 0)
				n.pods["uid-cached"].cache = 300 * mebi
				n.run("second", 200, 0, high) // behind it by either figure
				n.host = 420 * mebi
				if definition == pressure.Kernel {
					n.host += 300 * mebi
				}
				policy := hardPolicy()
				policy.MemoryAvailable = definition
				watch(t, n, policy, 20*time.Second)
				n.wantVictims(t, want...)
			})
		})
	}
}

func TestAllocatableBooksWhatTheSignalCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("cached", 30, 0)
		n.pods["uid-cached"].cache = 300 * mebi
		read, err := n.Collect(nil)
		if err != nil {
			t.Fatal(err)
		}
		for definition, holds := range map[pressure.MemoryDefinition]int64{pressure.Kernel: 30 * mebi, pressure.WorkingSet: 330 * mebi} {
			uses := measure.CgroupUses(pressure.AllocatableMemoryAvailable, definition, n.List(), read)
			want := pressure.Amounts{}.With(pressure.AllocatableMemoryAvailable, holds).With(pressure.KubeletMemoryAvailable, 330*mebi).
				With(pressure.MemoryAvailable, holds).
				With(pressure.MemoryStall, measure.WholeStall).With(pressure.PIDAvailable, 30)
			if got := uses.ByUID["uid-cached"].Expected; got != want {
				t.Errorf("%v: expected %+v, want %+v", definition, got, want)
			}
		}
	})
}

// A victim that has freed most of what it had while it takes its time to end is not
// relied on for it once more.
func TestVictimIsReliedOnForWhatItHasLeft(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		shrink func(*fakePod)
		behind bool
	}{
		{"its processes ended", func(p *fakePod) { p.memory = 10 * mebi }, false},
		{"its processes ended, and the watch has not told that it is leaving", func(p *fakePod) { p.memory = 10 * mebi }, true},
		{"its cgroup has gone", func(p *fakePod) { p.memory, p.noCgroup = 0, true }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.ends, n.behind = 25*time.Second, test.behind
				n.run("first", 300, 0)
				n.run("second", 200, 0)
				n.host = 430 * mebi
				n.after(time.Second, func() { test.shrink(n.pods["uid-first"]) })
				n.after(2*time.Second, func() { n.host += 300 * mebi })
				watch(t, n, hardPolicy(), 10*time.Second)
				n.wantVictims(t, "first", "second")
			})
		})
	}
}

// TestSecondReadingCountsWhatIsInFlight: what a victim frees between the measurement and the second
// reading is not reclaimed twice.
func TestSecondReadingCountsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("leaving", 60, 0)
		n.run("second", 200, 0)
		n.host = 710 * mebi // 30 available, 100 wanted: 70 missing, 60 in flight
		n.stubborn = true
		n.terminate("uid-leaving")
		a := newAgent(t, n, hardPolicy())
		a.options.Sampler = &freesMeanwhile{n, 0}
		a.tick(t.Context())
		synctest.Wait()
		if diff := cmp.Diff([]decide.Hold{decide.HoldReclaimInProgress}, n.holds()); diff != "" || len(n.evictions) != 0 {
			t.Errorf("%d evictions; holds (-want +got):\n%s", len(n.evictions), diff)
		}
	})
}

// freesMeanwhile is a sampler between whose first two samples a victim frees half.
type freesMeanwhile struct {
	*fakeNode
	count int
}

func (f *freesMeanwhile) Sample(now time.Time) pressure.Sample {
	if f.count++; f.count == 2 {
		f.pods["uid-leaving"].memory /= 2
	}
	return f.fakeNode.Sample(now)
}

// Hard pressure does not wait for an hour of grace; soft pressure does.
func TestPatienceWithALongGrace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		hard   bool
		during time.Duration
		want   []string
	}{
		{"hard, before it runs out", true, decide.HardPatience, []string{"patient"}},
		{"hard, after it", true, decide.HardPatience + time.Second, []string{"patient", "next"}},
		{"soft", false, 30 * time.Minute, []string{"patient"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.stubborn = true
				hour := int64(3600)
				n.run("patient", 300, 0, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &hour })
				n.run("next", 290, 0)
				n.host = 400 * mebi
				policy := hardPolicy()
				policy.Thresholds[0].Hard = test.hard
				watch(t, n, policy, test.during)
				n.wantVictims(t, test.want...)
			})
		})
	}
}

// The API takes any number of seconds for a grace period.
func TestEndlessGraceIsNotInThePast(t *testing.T) {
	t.Parallel()
	for _, byHand := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := newFakeNode(1000)
			n.stubborn = true
			endless := int64(10_000_000_000)
			n.run("endless", 300, 0, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &endless })
			n.run("next", 290, 0)
			n.host = 400 * mebi
			want := []string{"endless"}
			if byHand {
				n.terminate("uid-endless")
				want = []string{}
			}
			watch(t, n, hardPolicy(), 10*time.Second)
			n.wantVictims(t, want...)
		})
	}
}

func TestNoCandidatesNamesVictimsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.stubborn = true
		n.run("small", 10, 0)
		n.host = 950 * mebi
		watch(t, n, hardPolicy(), time.Second)
		if d := n.last(t); d.Hold != decide.HoldNoCandidates || !strings.Contains(d.Detail, "1 pods on the node, 1 of them terminating") {
			t.Errorf("decision %+v", d)
		}
	})
}

// TestUnknownIsNotGone: unknown does not mean ended: a victim whose cgroup cannot be read, and a
// list of pods that is not complete, end no booking.
func TestUnknownIsNotGone(t *testing.T) {
	t.Parallel()
	for name, blind := range map[string]func(*fakeNode){
		"the cgroup cannot be looked for": func(n *fakeNode) { n.unpresent = errPlanted() },
		"the pods are not known":          func(n *fakeNode) { n.unsynced = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				a := newAgent(t, n, hardPolicy())
				a.victims.Accept(decide.Victim{UID: "uid-unlisted", Deadline: time.Now().Add(time.Hour)})
				blind(n)
				a.tick(t.Context())
				if !a.victims.Terminates("uid-unlisted") {
					t.Error("the victim counts as gone")
				}
				n.unpresent, n.unsynced = nil, false
				a.tick(t.Context())
				if a.victims.Terminates("uid-unlisted") {
					t.Error("the victim does not count as gone although it is")
				}
			})
		})
	}
}

// A force-deleted pod whose processes still run holds what it holds.
func TestUnlistedPodWithACgroupIsStillThere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("forced", 100, 0)
		a := newAgent(t, n, hardPolicy(), func(o *Options) { o.Pods = noPods{n} })
		a.victims.Accept(decide.Victim{UID: "uid-forced", Deadline: time.Now().Add(time.Hour)})
		a.tick(t.Context())
		if !a.victims.Terminates("uid-forced") {
			t.Error("the victim counts as gone while its cgroup is there")
		}
	})
}

// noPods is a fakeNode whose API server lists none of its pods.
type noPods struct{ *fakeNode }

func (noPods) List() []*nodepods.Pod { return nil }

// evictByKubelet is how the kubelet evicts: the pod has finished and stays listed, nothing
// of it is deleted, and its cgroup and what it holds go a little later. The lock is held.
func (n *fakeNode) evictByKubelet(uid string, cleanUp time.Duration) {
	victim := n.pods[uid]
	failed := victim.api.DeepCopy()
	failed.Status.Phase, failed.Status.Reason = corev1.PodFailed, "Evicted"
	victim.api = failed
	time.AfterFunc(cleanUp, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		victim.memory, victim.noCgroup = 0, true
	})
}

// TestKubeletsVictimIsInTheLedger: the kubelet evicts a pod, whose memory is reclaimed a while
// later. Evictd evicts no pod for what the kubelet's victim frees, and a pod that stays listed does
// not hold the next pressure.
func TestKubeletsVictimIsInTheLedger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("kubelets", 300, 0)
		n.run("second", 200, 0)
		n.host = 300 * mebi
		n.after(time.Second, func() {
			n.host += 150 * mebi // 50 left, 100 wanted
			n.evictByKubelet("uid-kubelets", 5*time.Second)
		})
		n.after(20*time.Second, func() { n.host += 300 * mebi })
		var before []string
		n.after(15*time.Second, func() {
			for _, r := range n.evictions {
				before = append(before, r.Name)
			}
		})
		watch(t, n, hardPolicy(), 30*time.Second)
		if len(before) != 0 {
			t.Errorf("evicted %v although the kubelet's victim sufficed", before)
		}
		if diff := cmp.Diff([]decide.Hold{decide.HoldReclaimInProgress}, n.holds()[:1]); diff != "" {
			t.Errorf("holds (-want +got):\n%s", diff)
		}
		n.wantVictims(t, "second")
	})
}

// Pods that the kubelet evicted yesterday are still listed, and hold nothing.
func TestKubeletsOldVictimsDelayNoEviction(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("yesterdays", 0, 0, func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
		n.pods["uid-yesterdays"].noCgroup = true
		n.run("first", 300, 0)
		n.run("second", 200, 0)
		n.host = 800 * mebi // more is missing than the first one returns
		watch(t, n, hardPolicy(), time.Second)
		n.wantVictims(t, "first", "second")
		for _, booking := range n.last(t).InFlight {
			if booking.Name == "yesterdays" {
				t.Error("yesterday's victim is in flight")
			}
		}
	})
}

// The kubelet ends a pod that evictd has evicted: its end is its end, although the pod
// stays listed.
func TestVictimThatTheKubeletEndedHasGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("both", 100, 0, func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
		n.pods["uid-both"].noCgroup = true
		a := newAgent(t, n, hardPolicy())
		a.victims.Accept(decide.Victim{UID: "uid-both", Deadline: time.Now().Add(time.Hour)})
		a.tick(t.Context())
		if a.victims.Terminates("uid-both") {
			t.Error("the victim counts as in flight although nothing of it is left")
		}
	})
}

// The end of a mirror pod ends nothing: the static pod's memory stays where it is, and the
// kubelet makes the mirror again.
func TestFaultTerminatingMirrorIsNotReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("static", 500, 0, func(p *corev1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.hash": "uid-static", "kubernetes.io/config.mirror": "uid-static"}
		})
		n.run("greedy", 450, 10)
		n.stubborn = true
		n.terminate("uid-static")
		watch(t, n, hardPolicy(), 2*time.Second)
		n.wantVictims(t, "greedy")
		for _, b := range n.last(t).InFlight {
			if b.Name == "static" {
				t.Errorf("relied on: %+v", b)
			}
		}
	})
}
