package agent

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// spaceNode is a node with one filesystem of 1000, on which 100 should be available. The
// test says what is, besides what its pods have freed.
type spaceNode struct {
	*fakeNode

	signal    pressure.Signal
	started   time.Time
	available func(since time.Duration) int64
	freed     func(ended map[string]time.Duration) int64 // by how long ago pods ended; nil: 90 each, at once
	names     []string
	ended     map[string]time.Time
	measured  map[string]usage.DiskUse
	blind     func(since time.Duration) bool // when the filesystem does not answer; nil: never
	slow      time.Duration                  // how long a measurement of the pods takes
}

func (s *spaceNode) Sample(now time.Time) pressure.Sample {
	sample := s.fakeNode.Sample(now)
	if s.blind != nil && s.blind(now.Sub(s.started)) {
		sample.Observations[s.signal] = pressure.Observation{Err: errPlanted()}
		return sample
	}
	available := s.available(now.Sub(s.started))
	if ages := s.ages(now); s.freed != nil {
		available += s.freed(ages)
	} else {
		available += 90 * int64(len(ages))
	}
	sample.Observations[s.signal] = pressure.Observation{State: pressure.Known, Available: available, Capacity: 1000}
	return sample
}

// ages returns how long ago pods have ended.
func (s *spaceNode) ages(now time.Time) map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	ages := map[string]time.Duration{}
	for _, name := range s.names {
		if _, there := s.pods["uid-"+name]; there {
			continue
		}
		if s.ended[name].IsZero() {
			s.ended[name] = now
		}
		ages[name] = now.Sub(s.ended[name])
	}
	return ages
}

// prepare puts the pods large and small on the node.
func (s *spaceNode) prepare() {
	s.fakeNode, s.started, s.ended = newFakeNode(1000), time.Now(), map[string]time.Time{}
	s.measured = map[string]usage.DiskUse{}
	for name, used := range map[string]int64{"large": 90, "small": 15} {
		s.run(name, 1, 0)
		s.names = append(s.names, name)
		s.measured["uid-"+name] = measuretest.DiskUse(used, used, used, used)
	}
}

// policy has a hard threshold on the node's filesystem.
func (s *spaceNode) policy() Policy {
	policy := hardPolicy()
	policy.Thresholds = []pressure.Threshold{{Signal: s.signal, Quantity: pressure.Absolute(100), Hard: true}}
	return policy
}

func (s *spaceNode) agent(t *testing.T, policy Policy, change ...func(*Options)) *Agent {
	t.Helper()
	parts := func(o *Options) {
		o.Sampler, o.Disk = s, &fakeDisk{node: s.fakeNode, slow: s.slow, measured: s.measured}
	}
	return newAgent(t, s.fakeNode, policy, append(change, parts)...)
}

// shortFor runs an agent on a node with the pods large and small, of
// which only large can free what is missing, and returns when the pods were evicted.
func shortFor(t *testing.T, n *spaceNode, during time.Duration, change ...func(*Policy)) []time.Duration {
	t.Helper()
	return shortBeside(t, n, nil, during, change...)
}

// shortBeside is shortFor with images that no pod uses; nil is an agent that does not count them.
func shortBeside(t *testing.T, n *spaceNode, images measure.Images, during time.Duration, change ...func(*Policy)) []time.Duration {
	t.Helper()
	n.prepare()
	policy := n.policy()
	if during >= 10*time.Minute {
		policy.Pacing.Min = 100 * time.Millisecond // the wants are seconds
	}
	for _, c := range change {
		c(&policy)
	}
	a := n.agent(t, policy, func(o *Options) { o.Images = images })
	ctx, stop := context.WithTimeout(t.Context(), during)
	defer stop()
	if err := a.Run(ctx); err != nil {
		t.Error(err)
	}
	synctest.Wait()
	var acted []time.Duration
	for i := range n.decisions {
		if d := &n.decisions[i]; d.Verb == decide.Acted {
			acted = append(acted, d.Time.Sub(n.started))
		}
	}
	return acted
}

// steps returns a function that has the last value whose time has come.
func steps(values map[time.Duration]int64) func(time.Duration) int64 {
	return func(since time.Duration) int64 {
		best, value := time.Duration(-1), int64(0)
		for at, v := range values {
			if at <= since && at > best {
				best, value = at, v
			}
		}
		return value
	}
}

// sloped goes from one value to the other in a time that begins at from.
func sloped(from, over time.Duration, first, last int64) func(time.Duration) int64 {
	return func(since time.Duration) int64 {
		share := min(1, max(0, float64(since-from)/float64(over)))
		return first + int64(share*float64(last-first))
	}
}

// TestVictimsContainersAreWaitedFor: the kubelet removes a victim's containers up to a minute after
// the API server has deleted the pod. No other pod is evicted in that time, although small alone
// could free what is missing by then.
func TestVictimsContainersAreWaitedFor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		after time.Duration // from the victim's end until its files are removed
		want  []string
	}{
		{"they are removed", 55 * time.Second, []string{"large"}},
		{"they are not", time.Hour, []string{"large", "small"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 90})}
				n.freed = func(ended map[string]time.Duration) int64 {
					if ended["large"] > test.after {
						return 90
					}
					return 0
				}
				acted := shortFor(t, n, 3*time.Minute)
				n.wantVictims(t, test.want...)
				if len(acted) > 1 && acted[1]-acted[0] < decide.CollectedWithin {
					t.Errorf("evictions after %v, want the second one %v after the first victim's end", acted, decide.CollectedWithin)
				}
			})
		})
	}
}

// TestVictimOfAnEarlierPressureIsNotWaitedFor: a victim whose space was reclaimed, so that the
// pressure ended, has no effect on the next pressure.
func TestVictimOfAnEarlierPressureIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const again = 30 * time.Second
		n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 90, again: 5})}
		n.freed = func(ended map[string]time.Duration) int64 { return 90 * int64(len(ended)) }
		acted := shortFor(t, n, time.Minute)
		if len(acted) != 2 || acted[1] < again || acted[1] > again+5*time.Second {
			t.Errorf("evictions after %v, want the second one after %v", acted, again)
		}
	})
}

// smallAndThird has the pods beside large hold more together than large does.
func (s *spaceNode) smallAndThird() {
	s.run("third", 1, 0)
	s.measured["uid-small"], s.measured["uid-third"] = measuretest.DiskUse(80, 80, 80, 80), measuretest.DiskUse(30, 30, 30, 30)
}

// A victim that could not suffice is not waited for.
func TestVictimThatCannotSufficeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 50})}
		n.freed = func(ended map[string]time.Duration) int64 { return -46 * int64(min(1, len(ended))) }
		acted := shortFor(t, n, time.Minute, func(*Policy) { n.smallAndThird() })
		if len(acted) < 2 || acted[1]-acted[0] > 5*time.Second {
			t.Errorf("evictions after %v, want two, as soon as the first has ended", acted)
		}
	})
}

// TestOthersThatEndAreNotWaitedFor: pods end one after the other, and no space is reclaimed. Pods
// that evictd did not evict are not waited for, or the wait would not end.
func TestOthersThatEndAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &spaceNode{signal: pressure.NodeFSAvailable, available: steps(map[time.Duration]int64{0: 50})}
		n.freed = func(ended map[string]time.Duration) int64 { return -46 * int64(min(1, len(ended))) }
		acted := shortFor(t, n, 30*time.Second, func(*Policy) {
			n.smallAndThird()
			for i := range 10 {
				name := fmt.Sprint("job-", i)
				n.run(name, 1, 0)
				n.measured["uid-"+name] = measuretest.DiskUse(0, 0, 0, 0)
				n.after(time.Second, func() { // large is in flight
					n.ends = time.Duration(2+2*i) * time.Second
					n.terminate("uid-" + name)
				})
			}
		})
		if len(acted) < 2 || acted[1]-acted[0] > 5*time.Second {
			t.Errorf("evictions after %v, want the second one after the first victim's end", acted)
		}
	})
}
