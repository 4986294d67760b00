package sim

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// scenarios is how many random scenarios are played.
var (
	scenarios = flag.Int("scenarios", 2000, "how many random scenarios are played")
	firstSeed = flag.Uint64("seed", 1, "of the first random scenario")
)

// random makes scenarios.
type random struct{ *rand.Rand }

func (r random) chance(share float64) bool { return r.Float64() < share }

func (r random) mebi(low, high int64) resource.Quantity {
	return *resource.NewQuantity((low+r.Int64N(high-low+1))*Mebi, resource.BinarySI)
}

func (r random) seconds(low, high int64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(low+r.Int64N(high-low+1)) * time.Second}
}

func (r random) curve(most int64) Curve {
	c := Curve{Shape: Shapes()[r.IntN(len(Shapes()))], From: r.mebi(10, most/4), To: r.mebi(10, most), After: r.seconds(0, 60), Over: r.seconds(1, 120)}
	if c.Shape == ShapeSawtooth || c.Shape == ShapeBurst && r.chance(0.5) {
		c.Every = r.seconds(5, 90)
	}
	return c
}

// scenario is a node of 4 to 16 GiB with up to a dozen workloads, which are about twice as much as fits.
func (r random) scenario() *Scenario {
	s := &Scenario{Duration: r.seconds(90, 180), Node: Machine{Memory: r.mebi(4<<10, 16<<10)}}
	capacity := s.Node.Memory.Value() / Mebi
	s.Node.System = Curve{From: r.mebi(100, capacity/8)}
	if r.chance(0.3) {
		s.Node.PodsLimit = *resource.NewQuantity(s.Node.Memory.Value()*8/10, resource.BinarySI)
	}
	disk := int64(0)
	if r.chance(0.3) {
		disk = 100 << 10
		s.Node.Disk = &Volume{Capacity: r.mebi(disk, disk), System: r.curve(disk / 2), UnusedImages: r.curve(disk / 3)}
	}
	for i := range 2 + r.IntN(10) {
		w := Workload{Name: fmt.Sprint("w", i), Memory: r.curve(capacity / 3), Cache: Curve{From: r.mebi(0, 200)}, Replicas: new(int32(1 + r.IntN(3))), Priority: int32(r.IntN(3) * 1000)}
		if r.chance(0.7) {
			w.Request = r.mebi(10, capacity/8)
		}
		if r.chance(0.2) {
			w.Limit = r.mebi(capacity/8, capacity/2)
		}
		switch r.IntN(10) {
		case 0:
			w.Controller = "DaemonSet"
		case 1:
			w.Priority = rank.SystemCriticalPriority
		case 2:
			w.Controller = "None"
		}
		if r.chance(0.2) {
			w.MaxUnavailable = new(r.Int32N(2))
		}
		if disk > 0 && r.chance(0.5) {
			w.Disk = r.curve(disk / 3)
		}
		w.Stops = new(r.seconds(0, 40))
		w.Starts = r.seconds(0, 60)
		s.Pods = append(s.Pods, w)
	}
	if r.chance(0.3) {
		s.API = append(s.API, APIFault{Faults()[r.IntN(len(Faults()))], r.seconds(10, 100), r.seconds(5, 60)})
	}
	for range r.IntN(3) {
		s.killed = append(s.killed, r.seconds(5, 120).Duration)
	}
	slices.Sort(s.killed)
	return s
}

// judge looks at what a played scenario tells.
type judge struct {
	t      *testing.T
	play   *play
	told   time.Time          // the last decision
	seen   map[string][]int64 // what was available, by threshold
	needed []int64
	all    []string
}

func (j *judge) sees(e Event) {
	if e.Decision == nil {
		j.all = append(j.all, fmt.Sprint(e.At, " ", e.Pod, " ", e.Text))
		return
	}
	d := e.Decision
	j.told = time.Now()
	j.all = append(j.all, fmt.Sprint(e.At, " ", d.Verb(), " ", d.Hold, " ", d.Detail))
	for i := range d.Attempts {
		pod := d.Attempts[i].Entry.Pod
		j.all = append(j.all, fmt.Sprint("    ", pod.Key(), " ", d.Attempts[i].Result.Outcome))
		if pod.DaemonSet || pod.Priority >= rank.SystemCriticalPriority || pod.Owner == "" {
			j.t.Errorf("%v: asks for %s, which is protected", e.At, pod.Key())
		}
	}
}

// Whatever happens on a node, and whenever evictd is killed: nothing protected goes, a shortage that victims in flight
// cover has no further one, and while a line is crossed evictd says at least twice a minute what it does about it.
func TestInvariantRandomScenarios(t *testing.T) {
	t.Parallel()
	n := *scenarios
	const together = 50
	for first := 0; first < n; first += together {
		t.Run(fmt.Sprint("from ", *firstSeed+uint64(first)), func(t *testing.T) {
			t.Parallel()
			for i := range min(together, n-first) {
				seed := *firstSeed + uint64(first+i)
				var failed bool
				synctest.Test(t, func(t *testing.T) { failed = !playRandom(t, seed) })
				if failed {
					t.Fatalf("go test ./internal/sim -run RandomScenarios -scenarios=1 -seed=%d", seed)
				}
			}
		})
	}
}

func playRandom(t *testing.T, seed uint64) bool {
	t.Helper()
	r := random{rand.New(rand.NewPCG(seed, 1))}
	s, j := r.scenario(), &judge{t: t, seen: map[string][]int64{}}
	policy := HardPolicy()
	policy.Pacing.Min = Moment // nothing changes sooner
	policy.WithinRequests = []decide.WithinRequests{decide.WithinRequestsNever, decide.WithinRequestsUntilExhaustion}[r.IntN(2)]
	policy.Thresholds = append(policy.Thresholds, pressure.Threshold{Signal: pressure.AllocatableMemoryAvailable, Quantity: pressure.Fraction(0.05), Hard: true},
		pressure.Threshold{Signal: pressure.NodeFSAvailable, Quantity: pressure.Fraction(0.12), Hard: true},
		pressure.Threshold{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(0.15), Grace: 20 * time.Second})
	s.watches = func(p *play) { j.play = p; j.looks() }
	if _, err := s.Play(t.Context().Err, Both, policy, seed, j.sees); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		for _, line := range j.all {
			t.Log(line)
		}
	}
	return !t.Failed()
}

// looks is called at each step; its mu is held.
func (j *judge) looks() {
	p, now := j.play, time.Now()
	sample, met := p.observe(now), false
	needed := int64(math.MinInt64)
	for _, t := range p.policy.Thresholds {
		if o := sample.Of(t.Signal); o.State == pressure.Known {
			met = met || t.Hard && short(&sample, t)
			if t.Signal.OnDisk() && short(&sample, t) {
				needed = math.MaxInt64 // what a pod holds of memory does not count
			} else if !t.Signal.OnDisk() {
				needed = max(needed, j.needs(t, o))
			}
		}
	}
	if !met {
		j.told = now
	}
	if now.Sub(j.told) > 45*time.Second {
		j.t.Errorf("%v: a line is crossed, and evictd has said nothing for 45 s", p.since())
		j.told = now
	}
	const before = 45 // steps: a slow API server takes a request four seconds after it was sent
	j.needed = append(j.needed, needed)
	j.second(slices.Max(j.needed[max(0, len(j.needed)-before):]))
}

// needs returns what is missing to a line, and what may go within half a minute at the fastest pace of the last ten
// seconds; a fiftieth is left for what a measurement of a moment ago does not show.
func (j *judge) needs(t pressure.Threshold, o pressure.Observation) int64 {
	seen := append(j.seen[t.String()], o.Available)
	j.seen[t.String()] = seen[max(0, len(seen)-100):]
	fastest := int64(0)
	for i := 10; i < len(seen); i++ {
		fastest = max(fastest, seen[i-10]-seen[i])
	}
	return t.Quantity.Of(o.Capacity) - o.Available + 30*fastest + o.Capacity/50
}

// second fails the test where a pod was just evicted although those evicted before hold more than is needed.
func (j *judge) second(needed int64) {
	p, now := j.play, time.Now()
	for uid, l := range p.lives {
		leaving := p.pods[uid].leaving
		if leaving == nil || l.by != ByEvictd || now.Sub(leaving.DeletionTimestamp.Add(time.Hour)) > Moment {
			continue
		}
		var held int64
		for other := range p.lives {
			if before := p.pods[other].leaving; before != nil && before.DeletionTimestamp.Before(leaving.DeletionTimestamp) {
				held += p.pods[other].memory
			}
		}
		if held > max(0, needed) {
			j.t.Errorf("%v: %s was evicted while victims hold %s, and %s are needed", p.since(), l.key, rank.Bytes(held), rank.Bytes(needed))
		}
	}
}
