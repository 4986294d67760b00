package agent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// kubelet measures what two pods use once in a while, and tells it with its own times.
type kubelet struct {
	started time.Time
	every   time.Duration
	greedy  func(since time.Duration) int64
	modest  int64                           // 0 is 20
	stamp   func(taken time.Time) time.Time // nil: as it was, in whole seconds
}

func (k *kubelet) Measure(context.Context, []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	since := time.Since(k.started).Truncate(k.every)
	measured := map[string]usage.DiskUse{"uid-modest": measuretest.PartsOf(false, 0, 0, cmp.Or(k.modest, 20), 0), "uid-greedy": measuretest.PartsOf(false, 0, 0, k.greedy(since), 0)}
	at := k.started.Add(since).Round(0).Truncate(time.Second) // as JSON has it
	if k.stamp != nil {
		at = k.stamp(at)
	}
	for uid, use := range measured {
		use.Time = at
		measured[uid] = use
	}
	return measured, nil
}

// TestFiguresFromBeforeThePressure: both pods have been known for long. Greedy takes the node 12
// past its threshold, and by the last figures holds nothing. Evicting modest alone would suffice,
// but it had no part in it.
func TestFiguresFromBeforeThePressure(t *testing.T) {
	t.Parallel()
	const met = 100 * time.Second
	writes := func(since time.Duration) int64 {
		if since < met {
			return 0
		}
		return 100
	}
	left := steps(map[time.Duration]int64{0: 188, met: 88})
	waits := []decide.Hold{decide.HoldUsageUnknown, decide.HoldReclaimInProgress}
	const older = "the figures of 2 pods are from before the pressure; those of shop/greedy are "
	for _, test := range []struct {
		name      string
		kubelet   kubelet
		available func(time.Duration) int64
		want      string
		from, to  time.Duration // when it is evicted
		holds     []decide.Hold
		detail    string // of the first that waits: half a minute after it began to measure
		note      string // of the decision that acts
	}{
		{
			"as old as the kubelet's may be",
			kubelet{every: 90 * time.Second},
			left,
			"greedy", 180 * time.Second, 180*time.Second + decide.DiskMaxAge, waits, older + "40s old: waiting 1m50s at most for newer ones", "",
		},
		{
			"they would go by what the kubelet measured before",
			kubelet{every: time.Second},
			left,
			"greedy", met, met + time.Second, waits, "", "",
		},
		{
			"the kubelet never measures again",
			kubelet{every: time.Hour},
			left,
			"modest", met + decide.RenewedWithin, met + decide.RenewedWithin + time.Second, waits, older + "2m10s old", older + "4m0s old",
		},
		{
			"the figures carry no time",
			kubelet{every: time.Second, stamp: func(time.Time) time.Time { return time.Time{} }},
			left,
			"greedy", met + decide.RenewedWithin, met + decide.RenewedWithin + time.Second, waits, older + "of unknown age", older + "of unknown age",
		},
		{
			"the clock was set back",
			kubelet{every: time.Hour, stamp: func(taken time.Time) time.Time { return taken.Add(time.Hour) }},
			left,
			"modest", met + decide.RenewedWithin, met + decide.RenewedWithin + time.Second, waits, older + "of unknown age", older + "of unknown age",
		},
		{
			"the disk would be full before a victim could help, and what it holds lasts",
			kubelet{every: time.Hour, modest: 70},
			sloped(met-40*time.Second, 50*time.Second, 150, 40),
			"modest", met - 20*time.Second, met,
			[]decide.Hold{decide.HoldUsageUnknown},
			"", older,
		},
		{
			"the disk would be full before a victim could help, and what it holds does not last",
			kubelet{every: time.Hour},
			sloped(met-40*time.Second, 50*time.Second, 150, 30),
			"", 0, 0,
			[]decide.Hold{decide.HoldUsageUnknown, decide.HoldInsufficientReclaim},
			"", "",
		},
		{
			"and the kubelet measures what fills it",
			kubelet{every: 30 * time.Second, greedy: func(since time.Duration) int64 {
				return max(0, int64((since-60*time.Second)/time.Second*3))
			}},
			sloped(met-40*time.Second, 50*time.Second, 150, 30),
			"greedy", met - 10*time.Second, met,
			[]decide.Hold{decide.HoldUsageUnknown},
			"", "",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &spaceNode{
					fakeNode: newFakeNode(1000), signal: pressure.NodeFSAvailable, started: time.Now(),
					available: test.available, ended: map[string]time.Time{},
				}
				n.run("modest", 1, 0)
				n.run("greedy", 1, 0)
				n.stubborn = true
				policy := diskPolicy(n.signal)
				if test.kubelet.started = n.started; test.kubelet.greedy == nil {
					test.kubelet.greedy = writes
				}
				a := newAgent(t, n.fakeNode, policy, func(o *Options) { o.Sampler, o.Disk = n, &test.kubelet })
				runFor(t, a, met+decide.RenewedWithin+30*time.Second)
				acted := slices.IndexFunc(n.decisions, func(d decide.Decision) bool { return d.Verb == decide.Acted })
				if acted < 0 {
					if holds := n.holds(); test.want != "" || !slices.Equal(holds[:min(len(holds), len(test.holds))], test.holds) {
						t.Errorf("no pod was evicted; holds %v", holds)
					}
					return
				}
				d := &n.decisions[acted]
				if after := d.Time.Sub(n.started); after < test.from || after > test.to || test.want != "" && n.victims()[0] != test.want {
					t.Errorf("%v was evicted after %v, want %s between %v and %v", n.victims(), after, test.want, test.from, test.to)
				}
				if note := strings.Join(d.Notes, ""); test.note == "" && note != "" || !strings.Contains(note, test.note) {
					t.Errorf("note %q, want %q", note, test.note)
				}
				if holds := n.holds(); !slices.Equal(holds[:min(len(holds), len(test.holds))], test.holds) {
					t.Errorf("holds %v, want %v", holds, test.holds)
				}
				n.saysWhileItWaits(t, test.detail)
			})
		})
	}
}

// saysWhileItWaits checks the decisions that were held because of old figures: no eviction may be
// based on these.
func (n *fakeNode) saysWhileItWaits(t *testing.T, detail string) {
	t.Helper()
	waiting := slices.DeleteFunc(slices.Clone(n.decisions), func(d decide.Decision) bool {
		return d.Hold != decide.HoldUsageUnknown || strings.HasPrefix(d.Detail, "measuring")
	})
	if detail == "" {
		return
	}
	if len(waiting) == 0 || !strings.HasPrefix(waiting[0].Detail, detail) {
		t.Errorf("waiting: %+v, want %q", waiting, detail)
	}
	for i := range waiting {
		if d := &waiting[i]; d.Breakdown != nil || len(d.Ranking.Candidates) > 0 {
			t.Errorf("something rests on old figures: %+v", d)
		}
	}
}

// A measurement from before the pressure is made again at once, however young it is.
func TestDiskIsMeasuredAgainForANewPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const hard = 5 * time.Second
		n := &spaceNode{
			fakeNode: newFakeNode(1000), signal: pressure.NodeFSAvailable, started: time.Now(), ended: map[string]time.Time{},
			available: steps(map[time.Duration]int64{0: 110, hard: 90}),
		}
		n.run("a", 1, 0)
		n.stubborn = true
		policy := diskPolicy(n.signal)
		policy.Thresholds = append(policy.Thresholds, pressure.Threshold{Signal: n.signal, Quantity: pressure.Absolute(200)})
		disk := &fakeDisk{node: n.fakeNode, measured: map[string]usage.DiskUse{"uid-a": measuretest.PartsOf(false, 30, 0, 0, 0)}}
		a := newAgent(t, n.fakeNode, policy, func(o *Options) { o.Sampler, o.Disk = n, disk })
		runFor(t, a, hard+2*time.Second)
		n.wantVictims(t, "a")
	})
}
