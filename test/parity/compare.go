package parity

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Report is the result of comparing one state.
type Report struct {
	// Unexplained says, one per line, what differs without a name.
	Unexplained []string
	// Named are the differences that had an effect.
	Named map[Difference]bool
	// Signals counts the orders that were compared, Pods the pods in them.
	Signals map[string]int
	Pods    int
}

func (r *Report) name(d Difference) { r.Named[d] = true }

func (r *Report) fault(format string, values ...any) {
	r.Unexplained = append(r.Unexplained, fmt.Sprintf(format, values...))
}

// comparison compares one state.
type comparison struct {
	Report

	state  *State
	node   *node
	orders map[pressure.Signal]rank.Ranking
}

// Compare runs the kubelet and evictd over a state. An error
// means that the state could not be compared, because one of the two rejects it.
func Compare(ctx context.Context, state *State) (*Report, error) {
	n, err := newNode(state)
	if err != nil {
		return nil, fmt.Errorf("making evictd's side: %w", err)
	}
	thresholds, err := state.Thresholds.kubelet()
	if err != nil {
		return nil, fmt.Errorf("reading the thresholds as the kubelet: %w", err)
	}
	if len(thresholds) == 0 || len(state.Readings) == 0 {
		return nil, fmt.Errorf("there is nothing to judge: %d thresholds, %d readings", len(thresholds), len(state.Readings))
	}
	c := &comparison{
		Report: Report{Named: map[Difference]bool{}, Signals: map[string]int{}}, state: state, node: n,
		orders: map[pressure.Signal]rank.Ranking{},
	}
	model := c.judged()
	for i, cycle := range kubelet(ctx, state, thresholds, state.Pods) {
		c.reading(i, &model[i], &cycle)
	}
	return &c.Report, nil
}

// kubelet returns the thresholds as the kubelet parses them.
func (t *Thresholds) kubelet() ([]evictionapi.Threshold, error) {
	return eviction.ParseThresholdConfig(nil, t.Hard, t.Soft, t.Grace, t.Reclaim)
}

// judged returns the verdicts of evictd's judge with the named rules replaced by the
// kubelet's, and records the names of those that changed a verdict.
func (c *comparison) judged() []pressure.Verdict {
	n := c.node
	shipped := n.judge(n.thresholds, nil)
	model := n.judge(n.exact(), func(s *pressure.Sample) { n.countNone(s); n.forget(s) })
	if sameVerdicts(shipped, model) {
		return model
	}
	for d, verdicts := range map[Difference][]pressure.Verdict{
		MissedReading:   n.judge(n.thresholds, n.forget),
		UncountedInodes: n.judge(n.thresholds, n.countNone),
		FractionOfByte:  n.judge(n.exact(), nil),
	} {
		if !sameVerdicts(shipped, verdicts) {
			c.name(d)
		}
	}
	return model
}

// exact returns the thresholds with minimum reclaims for which threshold and reclaim are
// added before they are rounded up to whole bytes, as in the kubelet.
func (n *node) exact() []pressure.Threshold {
	thresholds := slices.Clone(n.thresholds)
	for i := range thresholds {
		t := &thresholds[i]
		name := kubelets(t.Signal)
		reclaim, err := resource.ParseQuantity(n.state.Thresholds.Reclaim[name])
		if err != nil {
			continue // a percentage gives whole bytes, as does 0
		}
		for _, text := range []string{n.state.Thresholds.Hard[name], n.state.Thresholds.Soft[name]} {
			line, err := resource.ParseQuantity(text)
			if err == nil && t.Quantity == pressure.Absolute(line.Value()) {
				sum := line.DeepCopy()
				sum.Add(reclaim)
				t.MinReclaim = pressure.Absolute(sum.Value() - line.Value())
			}
		}
	}
	return thresholds
}

// forget turns a missing reading into a signal without one: the kubelet does not distinguish
// the two.
func (n *node) forget(sample *pressure.Sample) {
	for _, signal := range n.signals {
		if sample.Observations[signal].State == pressure.Unknown {
			sample.Observations[signal] = pressure.Observation{State: pressure.Absent}
		}
	}
}

// countNone turns inodes that a filesystem does not count into 0 of 0.
func (n *node) countNone(sample *pressure.Sample) {
	for _, signal := range n.signals {
		if signal.Unit() == pressure.Inodes && sample.Observations[signal].State == pressure.Absent {
			sample.Observations[signal] = pressure.Observation{State: pressure.Known}
		}
	}
}

func sameVerdicts(a, b []pressure.Verdict) bool {
	return slices.EqualFunc(a, b, func(v, w pressure.Verdict) bool {
		return v.Under == w.Under && slices.EqualFunc(v.Pressures, w.Pressures, func(p, q pressure.Pressure) bool {
			return p.Threshold.Signal == q.Threshold.Signal && p.Threshold.Hard == q.Threshold.Hard &&
				p.Threshold.Quantity == q.Threshold.Quantity
		})
	})
}

// reading compares the behavior of both at one reading.
func (c *comparison) reading(i int, verdict *pressure.Verdict, cycle *Cycle) {
	before := len(c.Unexplained)
	c.conditions(verdict, cycle)
	if acts := len(verdict.Pressures) > 0; acts != (cycle.Reclaims != "") {
		c.fault("evictd holds %v, the kubelet reclaims %q", holding(verdict), cycle.Reclaims)
	} else if acts {
		c.acting(i, verdict, cycle)
	}
	for j := before; j < len(c.Unexplained); j++ {
		c.Unexplained[j] = fmt.Sprintf("reading %d: %s", i, c.Unexplained[j])
	}
}

// acting compares the reaction to a pressure.
func (c *comparison) acting(i int, verdict *pressure.Verdict, cycle *Cycle) {
	for _, signal := range c.node.signals {
		_, known := c.state.Readings[i].Figures[kubelets(signal)]
		if !known && isMemory(signal) && isMemory(verdict.Pressures[0].Threshold.Signal) {
			c.name(IncompleteReading)
		}
	}
	if slices.ContainsFunc(verdict.Pressures, func(p pressure.Pressure) bool { return p.Observed.Available >= p.Line }) {
		c.name(MinimumReclaim) // internal/decide evicts no pod for it
	}
	chosen := chosenFrom(verdict.Pressures, cycle)
	if len(chosen) == 0 {
		c.fault("the kubelet reclaims %q (%s), and evictd holds only %v", cycle.Reclaims, cycle.Message, holding(verdict))
		return
	}
	c.choice(verdict.Pressures, chosen)
	var first []string
	for _, p := range chosen {
		attempt := &comparison{state: c.state, node: c.node, orders: c.orders, Report: Report{Named: map[Difference]bool{}}}
		attempt.order(p.Threshold.Signal, cycle)
		if len(attempt.Unexplained) == 0 {
			maps.Copy(c.Named, attempt.Named)
			c.Signals[p.Threshold.Signal.String()]++
			c.Pods += len(cycle.Order)
			return
		}
		if first == nil {
			first = attempt.Unexplained
		}
	}
	c.Unexplained = append(c.Unexplained, first...)
}

// choice names how the two chose among the pressures, or reports that the choice is wrong.
func (c *comparison) choice(held, chosen []pressure.Pressure) {
	evictds := held[0].Threshold
	for i := range chosen {
		if chosen[i].Threshold == evictds {
			return
		}
	}
	anyMemory := slices.ContainsFunc(held, func(p pressure.Pressure) bool { return isMemory(p.Threshold.Signal) })
	if anyMemory && !isMemory(chosen[0].Threshold.Signal) {
		c.fault("the kubelet takes %v although memory is short", chosen[0].Threshold)
		return
	}
	if anyMemory && !isMemory(evictds.Signal) {
		if !evictds.Hard {
			c.fault("evictd takes %v before memory", evictds)
		}
		c.name(HardBeforeSoft)
		return
	}
	c.name(RandomSignal)
}

// conditions compares the node conditions of both.
func (c *comparison) conditions(verdict *pressure.Verdict, cycle *Cycle) {
	if verdict.Stale {
		return // evictd says nothing about a reading that it has already judged
	}
	var memory, disk, pid bool
	for _, signal := range pressure.Signals() {
		switch under := verdict.Under[signal]; {
		case isMemory(signal):
			memory = memory || under
		case signal == pressure.PIDAvailable:
			pid = pid || under
		default:
			disk = disk || under
		}
	}
	if memory != cycle.Memory || disk != cycle.Disk || pid != cycle.PID {
		c.fault("under pressure: evictd memory %t, disk %t, pid %t; the kubelet %t, %t, %t",
			memory, disk, pid, cycle.Memory, cycle.Disk, cycle.PID)
	}
}

func holding(verdict *pressure.Verdict) []string {
	var texts []string
	for i := range verdict.Pressures {
		p := &verdict.Pressures[i]
		texts = append(texts, fmt.Sprintf("%v at %d of %d", p.Threshold, p.Observed.Available, p.Line))
	}
	return texts
}
