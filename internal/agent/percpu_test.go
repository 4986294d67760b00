package agent

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/evict"
)

// TestFaultFreedMemoryThatIsNotShownTakesAnother: the memory that a victim freed stays on the
// kernel's per-CPU lists for seconds, where MemAvailable does not show it: no other pod is evicted
// for it. Once the lists have shrunk and the memory is used again, the next pod is evicted.
func TestFaultFreedMemoryThatIsNotShownTakesAnother(t *testing.T) {
	t.Parallel()
	const base, freed = 200 * mebi, 500 * mebi
	for name, test := range map[string]struct {
		hidden time.Duration // how long what was freed is on the lists
		host   int64         // what the host takes of it then
		known  bool
		want   []string
	}{
		"it is shown after ten seconds":                   {10 * time.Second, 0, true, []string{"greedy"}},
		"it is shown after a minute":                      {time.Minute, 0, true, []string{"greedy"}},
		"the host has taken it":                           {10 * time.Second, freed, true, []string{"greedy", "next"}},
		"the lists stay long, and another process has it": {time.Hour, 0, true, []string{"greedy", "next"}},
		"the lists cannot be read":                        {10 * time.Second, 0, false, []string{"greedy", "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("greedy", 500, 100)
				n.run("next", 300, 100)
				n.host = 130 * mebi // 70 are available
				onLists, gone := int64(base), false
				a := newAgent(t, n, hardPolicy(), func(o *Options) {
					o.FreeOnCPULists = func() (int64, error) {
						n.mu.Lock()
						defer n.mu.Unlock()
						if !test.known {
							return 0, errPlanted()
						}
						return onLists, nil
					}
				})
				// The victim ends two seconds after its acceptance: its memory is put on the lists.
				n.after(n.ends, func() {
					n.host, onLists, gone = n.host+freed, onLists+freed, true
				})
				n.after(n.ends+test.hidden, func() {
					n.host, onLists = n.host-freed+test.host, onLists-freed
				})
				runFor(t, a, 2*time.Minute)
				if n.wantVictims(t, test.want...); !gone {
					t.Error("the test did nothing")
				}
			})
		})
	}
}

// TestCPUListsAreReadForATerminatingPodOnly: nothing is read while no pod is evicted and none is
// terminating.
func TestCPUListsAreReadForATerminatingPodOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.host = 950 * mebi
		a := newAgent(t, n, hardPolicy(), func(o *Options) {
			o.FreeOnCPULists = func() (int64, error) {
				t.Error("the lists were read")
				return 0, nil
			}
		})
		runFor(t, a, 5*time.Second)
	})
}

// Lists that stay long hold nothing back where small pods end all the time: before another one
// began to leave, ten minutes after the last victim, or while it did.
func TestEndOfOthersHoldsNothingBackForLong(t *testing.T) {
	t.Parallel()
	for _, grown := range []time.Duration{0, time.Second} {
		const later = 10 * time.Minute
		t.Run(grown.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("greedy", 500, 100)
				n.run("next", 300, 100)
				n.host = 130 * mebi
				onLists := int64(0)
				a := newAgent(t, n, hardPolicy(), func(o *Options) {
					o.FreeOnCPULists = func() (int64, error) { n.mu.Lock(); defer n.mu.Unlock(); return onLists, nil }
				})
				// Ten minutes later a job ends by itself that would suffice, and the host takes what it held.
				n.after(later+grown, func() { onLists = 90 * mebi })
				time.AfterFunc(later+time.Millisecond, func() {
					n.run("job", 40, 50)
					n.mu.Lock()
					n.host += 440 * mebi
					n.terminate("uid-job")
					n.mu.Unlock()
				})
				n.after(later+n.ends, func() { n.host += 40 * mebi })
				for i := range 40 { // small jobs end all the time
					name := "job" + string(rune('a'+i/26)) + string(rune('a'+i%26))
					time.AfterFunc(later+time.Duration(i)*5*time.Second, func() {
						n.run(name, 1, 1)
						n.mu.Lock()
						n.terminate("uid-" + name)
						n.mu.Unlock()
					})
				}
				runFor(t, a, later+n.ends+inflight.HardPatience+5*time.Second)
				n.wantVictims(t, "greedy", "next")
			})
		})
	}
}

// A victim of an hour's grace is relied on for a bounded time, and so is what is on the lists.
func TestCPUListsCountWhileTheVictimIsReliedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		hour := int64(3600)
		n.run("patient", 500, 100, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &hour })
		n.run("next", 300, 100)
		n.host, n.stubborn = 130*mebi, true
		onLists := int64(0)
		n.after(30*time.Second, func() { onLists = 100 * mebi })
		a := newAgent(t, n, hardPolicy(), func(o *Options) {
			o.FreeOnCPULists = func() (int64, error) { n.mu.Lock(); defer n.mu.Unlock(); return onLists, nil }
		})
		runFor(t, a, 50*time.Minute)
		n.wantVictims(t, "patient", "next")
	})
}

// TestCPUListsAreReadBeforeTheRequest: the response to the request comes after the victim's end:
// the base must not contain what the victim freed.
func TestCPUListsAreReadBeforeTheRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const freed = 500 * mebi
		n := newFakeNode(1000)
		n.run("greedy", 500, 100)
		n.run("next", 300, 100)
		n.host, n.ends = 130*mebi, time.Second
		onLists := int64(0)
		n.answer = func(r evict.Request) evict.Result {
			n.terminate(r.UID)
			if r.Name == "greedy" {
				return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}
			}
			return evict.Result{Outcome: evict.Evicted}
		}
		n.behind = true // the watch tells of its end alone
		n.after(n.ends, func() { n.host, onLists = n.host+freed, onLists+freed })
		n.after(n.ends+10*time.Second, func() { n.host, onLists = n.host-freed, onLists-freed })
		a := newAgent(t, n, hardPolicy(), func(o *Options) {
			o.FreeOnCPULists = func() (int64, error) { n.mu.Lock(); defer n.mu.Unlock(); return onLists, nil }
		})
		n.unlooked = errPlanted()
		runFor(t, a, time.Minute)
		n.wantVictims(t, "greedy")
	})
}

// cpuLists are the kernel's per-CPU lists of a node. What a pod frees is put on them when it
// ends, and is shown ten seconds later.
type cpuLists struct {
	node  *fakeNode
	bytes int64
}

func (l *cpuLists) read() (int64, error) {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	return l.bytes, nil
}

// take puts what a pod frees on the lists, when the node has run for so long.
func (l *cpuLists) take(after time.Duration, freed int64) {
	l.node.after(after, func() { l.node.host, l.bytes = l.node.host+freed, l.bytes+freed })
	l.node.after(after+10*time.Second, func() { l.node.host, l.bytes = l.node.host-freed, l.bytes-freed })
}

// TestFaultRestartForgetsFreedMemoryOnCPULists: a process that is killed at some time around its
// victim's end, and restarts at once, knows what the lists held before: no other pod is evicted for
// what the victim has freed.
func TestFaultRestartForgetsFreedMemoryOnCPULists(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 2005 * time.Millisecond, 2500 * time.Millisecond, 8 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, first := newFakeNode(1000), &file{t: t}
				n.run("greedy", 500, 100)
				n.run("next", 300, 100)
				n.host = 130 * mebi // 70 are available
				lists := &cpuLists{node: n, bytes: 200 * mebi}
				lists.take(n.ends, 500*mebi)
				var killed *file
				time.AfterFunc(after-time.Millisecond, func() { killed = first.copied() })
				live(t, n, first, hardPolicy(), after, func(o *Options) { o.FreeOnCPULists = lists.read })
				live(t, n, killed, hardPolicy(), time.Minute, func(o *Options) { o.FreeOnCPULists = lists.read })
				n.wantVictims(t, "greedy")
			})
		})
	}
}

// TestFaultRestartInDoubtForgetsFreedMemoryOnCPULists: the process was killed before it had the
// response to its request, and its victim ends before the next process begins, or after.
func TestFaultRestartInDoubtForgetsFreedMemoryOnCPULists(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{0, 4 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, first := newFakeNode(1000), &file{t: t}
				n.run("greedy", 500, 100)
				n.run("next", 300, 100)
				n.host = 130 * mebi
				lists := &cpuLists{node: n, bytes: 200 * mebi}
				lists.take(n.ends, 500*mebi)
				var killed *file
				n.answer = func(r evict.Request) evict.Result {
					killed = first.copied()
					n.terminate(r.UID)
					return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true}
				}
				live(t, n, first, hardPolicy(), 5*time.Millisecond, func(o *Options) { o.FreeOnCPULists = lists.read })
				n.answer = nil
				time.Sleep(away)
				live(t, n, killed, hardPolicy(), time.Minute, func(o *Options) { o.FreeOnCPULists = lists.read })
				n.wantVictims(t, "greedy")
			})
		})
	}
}

// TestCPUListsShrinkMeanwhile: the growth is counted from the smallest size of the lists: a pod
// begins to terminate while they are long, and frees what they have shrunk by meanwhile. The same
// is true after a restart.
func TestCPUListsShrinkMeanwhile(t *testing.T) {
	t.Parallel()
	for name, killedAt := range map[string]time.Duration{"one process": time.Minute, "killed meanwhile": 15 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n, first := newFakeNode(1000), &file{t: t}
				n.run("greedy", 500, 100)
				n.run("next", 300, 100)
				n.host, n.ends = 130*mebi, 20*time.Second
				lists := &cpuLists{node: n, bytes: 600 * mebi}
				n.after(10*time.Second, func() { lists.bytes = 100 * mebi })
				lists.take(n.ends, 500*mebi)
				read := func(o *Options) { o.FreeOnCPULists = lists.read }
				killed := first
				time.AfterFunc(killedAt-time.Millisecond, func() { killed = first.copied() })
				live(t, n, first, hardPolicy(), killedAt, read)
				time.Sleep(max(0, n.ends-killedAt) + time.Millisecond)
				live(t, n, killed, hardPolicy(), time.Minute, read)
				n.wantVictims(t, "greedy")
			})
		})
	}
}
