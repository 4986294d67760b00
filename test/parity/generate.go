package parity

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

// generator makes states from random numbers. It targets edge cases: figures at a threshold
// and next to it, usage at the request and next to it, equal keys, priorities at both ends.
type generator struct {
	*rand.Rand

	// few makes all amounts of a state come from a small set, so that keys are equal.
	few []int64
	// odd is the percentage of pods that have a named difference.
	odd int
}

// Generate returns the state of a seed; it is deterministic.
func Generate(seed uint64) *State {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x6576696374))} //nolint:gosec // repeatable, nothing is secret
	g.odd = []int{0, 0, 2, 10, 40}[g.IntN(5)]
	if g.chance(40) {
		g.few = []int64{0, 1, g.amount(), g.amount()}
	}
	s := &State{Seed: seed, Layout: []Layout{OneFS, OneFS, ImageFS, ImageFS, SplitFS}[g.IntN(5)]}
	s.Thresholds = g.thresholds()
	s.Protect = g.protect()
	s.Pods = g.pods(g.size())
	if len(s.Pods) > 0 && g.chance(5) {
		s.Self = s.Pods[g.IntN(len(s.Pods))].Name
	}
	s.Readings = g.readings(s)
	s.KubeletMemory = g.chance(50)
	return s
}

// chance is true in that percentage of calls.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// size returns a number of pods: any from 1 to 250, and small ones more often, because the
// kubelet takes milliseconds to rank a hundred.
func (g *generator) size() int {
	const most = 250
	spread := g.Float64()
	if g.chance(80) {
		spread *= g.Float64()
	}
	return min(most, int(math.Exp(spread*math.Log(most+1))))
}

// pick returns one of the texts.
func (g *generator) pick(texts ...string) string { return texts[g.IntN(len(texts))] }

// amount returns bytes of any size that a node may have.
func (g *generator) amount() int64 {
	if g.few != nil {
		return g.few[g.IntN(len(g.few))]
	}
	return g.Int64N(1 << (1 + g.IntN(44)))
}

// beside returns n, a neighbor of n, or any other number.
func (g *generator) beside(n int64) int64 {
	switch g.IntN(6) {
	case 0:
		return n
	case 1:
		return n + 1
	case 2:
		return max(0, n-1)
	default:
		return g.amount()
	}
}

func (g *generator) thresholds() Thresholds {
	t := Thresholds{
		Hard: map[string]string{}, Soft: map[string]string{}, Grace: map[string]string{}, Reclaim: map[string]string{},
		Transition: time.Duration(g.IntN(4)+1) * time.Minute,
	}
	signals := slices.DeleteFunc(pressure.Signals(), func(s pressure.Signal) bool {
		return !isKubelets(s) || s == pressure.ContainerFSAvailable || s == pressure.ContainerFSInodesFree
	})
	g.Shuffle(len(signals), func(i, j int) { signals[i], signals[j] = signals[j], signals[i] })
	// When it sorts more than twelve thresholds, of which four are those of containerfs, the
	// kubelet's comparison no longer keeps memory first.
	// One alone is judged without the kubelet's choice, which could hide an error.
	for _, signal := range signals[:max(1, g.IntN(6)-1)] {
		g.threshold(&t, signal)
	}
	return t
}

// threshold adds a signal's thresholds: hard, soft or both.
func (g *generator) threshold(t *Thresholds, signal pressure.Signal) {
	name, kinds := signal.String(), g.IntN(5)
	low, high := g.shares()
	if g.chance(40) {
		low, high = g.amounts(signal)
	}
	if kinds != 0 {
		t.Hard[name] = low
	}
	if kinds == 0 || kinds > 2 {
		t.Soft[name] = high
		t.Grace[name] = g.pick("0s", "30s", "1m30s", "45s", "2m")
	}
	switch g.IntN(4) {
	case 0:
		t.Reclaim[name] = g.pick("2%", "0.5%", "10.5%", "1%", "3.3%")
	case 1:
		t.Reclaim[name] = g.pick("0", "1", "100Mi", "1e3", "1.3Gi", "65536")
	default:
	}
}

// shares returns two percentages, the second above the first.
func (g *generator) shares() (low, high string) {
	tenths := 1 + g.IntN(500)
	return percentage(tenths), percentage(tenths + 1 + g.IntN(300))
}

func percentage(tenths int) string {
	if tenths%10 == 0 {
		return strconv.Itoa(tenths/10) + "%"
	}
	return fmt.Sprintf("%d.%d%%", tenths/10, tenths%10)
}

// amounts returns two amounts, the second above the first, with and without units.
func (g *generator) amounts(signal pressure.Signal) (low, high string) {
	n := 1 + g.Int64N(1<<20)
	if signal.Unit() != pressure.Bytes {
		return strconv.FormatInt(n, 10), g.pick(strconv.FormatInt(n+1, 10), "2M", "5e6", "4Mi")
	}
	low = fmt.Sprintf("%d%s", 1+n%900, g.pick("Mi", "M", "Ki", ".3Mi", "e6"))
	return low, g.pick("1Gi", "1.3Gi", "3e9", "5G", strconv.FormatInt(1<<30+n, 10))
}

func (g *generator) protect() config.Protect {
	p := unprotected()
	if g.odd == 0 {
		return p
	}
	p.DaemonSets, p.BarePods = g.chance(30), g.chance(30)
	if g.chance(20) {
		p.PriorityAtLeast = 1000
	}
	if g.chance(20) {
		p.Namespaces = []string{"kube-system"}
	}
	if g.chance(20) {
		p.PodSelector.MatchLabels = map[string]string{"keep": "me"}
	}
	return p
}

// readings returns readings of the node, close to the thresholds.
func (g *generator) readings(s *State) []Reading {
	thresholds := s.configuration().Thresholds()
	readings := make([]Reading, 1+g.IntN(5))
	capacity := map[string]int64{}
	for i := range readings {
		r := &readings[i]
		r.After = time.Duration(1+g.IntN(120)) * time.Second
		if i > 0 && g.chance(10) {
			*r = Reading{Figures: readings[i-1].Figures} // the same reading repeated
			continue
		}
		r.Figures = map[string]Figure{}
		for _, signal := range pressure.Signals() {
			if isKubelets(signal) && !g.chance((g.odd+3)/4) {
				r.Figures[signal.String()] = g.figure(thresholds, signal, capacity)
			}
		}
		if s.Layout == OneFS {
			same(r.Figures, pressure.ImageFSAvailable, pressure.NodeFSAvailable)
			same(r.Figures, pressure.ImageFSInodesFree, pressure.NodeFSInodesFree)
		}
	}
	return readings
}

// same makes one signal read as another: both are of one filesystem.
func same(figures map[string]Figure, signal, other pressure.Signal) {
	delete(figures, signal.String())
	if figure, known := figures[other.String()]; known {
		figures[signal.String()] = figure
	}
}

// figure returns a reading at a threshold, at the reclaim target, or anywhere.
func (g *generator) figure(thresholds []pressure.Threshold, signal pressure.Signal, capacities map[string]int64) Figure {
	name := signal.String()
	if capacities[name] == 0 {
		capacities[name] = 1<<20 + g.Int64N(1<<(21+g.IntN(20)))
	}
	f := Figure{Capacity: capacities[name]}
	if signal.Unit() == pressure.Inodes && g.chance((g.odd+3)/8) {
		return Figure{}
	}
	f.Available = g.Int64N(f.Capacity)
	var lines []int64
	for _, t := range thresholds {
		if kubelets(t.Signal) == name {
			line := t.Quantity.Of(f.Capacity)
			lines = append(lines, line, line+t.MinReclaim.Of(f.Capacity), g.Int64N(line+1))
		}
	}
	if len(lines) > 0 && g.chance(85) {
		f.Available = lines[g.IntN(len(lines))] + int64(g.IntN(3)) - 1
	}
	f.Available = min(f.Available, f.Capacity)
	if signal == pressure.AllocatableMemoryAvailable && g.chance(5) {
		f.Available = -g.Int64N(1 << 20) // pods above a limit that was lowered
		return f
	}
	f.Available = max(0, f.Available)
	return f
}
