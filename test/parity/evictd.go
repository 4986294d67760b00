package parity

import (
	"context"
	"fmt"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// Source is where a ranking's figures come from.
type Source struct {
	Cgroups interface {
		Collect(into []usage.Pod) ([]usage.Pod, error)
	}
	Disk interface {
		Measure(ctx context.Context, pods []*nodepods.Pod) (map[string]usage.DiskUse, error)
	}
	// MemoryAvailable is how memory.available is measured, and so the pods' memory.
	MemoryAvailable pressure.MemoryDefinition
}

// Ranker returns the order for a signal, as [Rank] does. A test replaces it with a bug.
type Ranker func(
	ctx context.Context, signal pressure.Signal, pods []*nodepods.Pod, source Source, rules rank.Rules,
) (rank.Ranking, error)

// Rank is evictd's own ranking: what the agent measures, ranked as it ranks.
func Rank(ctx context.Context, signal pressure.Signal, pods []*nodepods.Pod, source Source, rules rank.Rules) (rank.Ranking, error) {
	var uses *decide.Uses
	if signal.OnDisk() {
		measured, err := source.Disk.Measure(ctx, pods)
		if err != nil {
			return rank.Ranking{}, fmt.Errorf("measuring the pods' disk use: %w", err)
		}
		uses = measure.DiskUses(&pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}}, pods, measured, 0)
	} else {
		read, err := source.Cgroups.Collect(nil)
		if err != nil {
			return rank.Ranking{}, fmt.Errorf("reading the pods' cgroups: %w", err)
		}
		uses = measure.CgroupUses(signal, source.MemoryAvailable, pods, read)
	}
	return rank.Order(decide.RankedBy(signal), uses.Facts(signal, pods), rules), nil
}

// node is evictd's side of a state: its policy and its view of the pods.
type node struct {
	state      *State
	thresholds []pressure.Threshold
	signals    []pressure.Signal
	definition pressure.MemoryDefinition
	rules      rank.Rules
	pods       []*nodepods.Pod
	rank       Ranker
}

func newNode(state *State, ranker Ranker) (*node, error) {
	c := state.configuration()
	thresholds := c.Thresholds()
	if thresholds == nil {
		return nil, fmt.Errorf("the thresholds are at fault: %+v", state.Thresholds)
	}
	n := &node{state: state, thresholds: thresholds, definition: c.MemoryAvailable, rules: c.Rules(), rank: ranker}
	asked := [pressure.SignalCount]bool{}
	for _, t := range thresholds {
		if !asked[t.Signal] {
			asked[t.Signal] = true
			n.signals = append(n.signals, t.Signal)
		}
	}
	for i := range state.Pods {
		pod := nodepods.FromAPI(state.Pods[i].api())
		pod.Self = state.Self != "" && pod.UID == "uid-"+state.Self
		n.pods = append(n.pods, pod)
	}
	return n, nil
}

// judge returns evictd's verdict at each reading. It uses the given thresholds; adapt may
// change each sample.
func (n *node) judge(thresholds []pressure.Threshold, adapt func(*pressure.Sample)) []pressure.Verdict {
	judge := pressure.NewJudge(thresholds, n.state.Thresholds.Transition)
	now := start()
	verdicts := make([]pressure.Verdict, 0, len(n.state.Readings))
	for i := range n.state.Readings {
		now = now.Add(n.state.Readings[i].After)
		sample := n.state.Readings[i].sample(now, n.signals)
		if adapt != nil {
			adapt(&sample)
		}
		verdict := judge.Judge(&sample)
		// The judge reuses its slices.
		verdict.Pressures = append([]pressure.Pressure(nil), verdict.Pressures...)
		verdict.Unknown = append([]pressure.Signal(nil), verdict.Unknown...)
		verdicts = append(verdicts, verdict)
	}
	return verdicts
}

// order returns evictd's ranking for a signal, computed as the agent does; that of
// allocatableMemory.available by the working set, see MemoryMeasure.
func (n *node) order(ctx context.Context, signal pressure.Signal) (rank.Ranking, error) {
	if signal == pressure.AllocatableMemoryAvailable {
		return n.orderBy(ctx, signal, pressure.WorkingSet)
	}
	return n.orderBy(ctx, signal, n.definition)
}

// orderBy is order with memory.available measured by another definition.
func (n *node) orderBy(ctx context.Context, signal pressure.Signal, definition pressure.MemoryDefinition) (rank.Ranking, error) {
	source := Source{Cgroups: cgroups{n.state}, Disk: disk{n.state}, MemoryAvailable: definition}
	return n.rank(ctx, signal, n.pods, source, n.rules)
}

// cgroups are the pods' cgroups, as package usage returns them.
type cgroups struct{ state *State }

// Collect returns the pods that could be read.
func (c cgroups) Collect(into []usage.Pod) ([]usage.Pod, error) {
	for i := range c.state.Pods {
		if read, ok := c.state.Pods[i].cgroup(); ok {
			into = append(into, read)
		}
	}
	return into, nil
}

// disk is the kubelet's Summary, processed as in cmd/evictd.
type disk struct{ state *State }

// Measure returns the pods' disk usage by UID.
func (d disk) Measure(_ context.Context, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	var all []statsapi.PodStats
	for i := range d.state.Pods {
		if stats := d.state.Pods[i].stats(); stats != nil {
			all = append(all, *stats)
		}
	}
	summary := d.state.summary(0, time.Time{}, all)
	volumes := make(map[string][]string, len(pods))
	for _, pod := range pods {
		volumes[pod.UID] = pod.DiskVolumes
	}
	return usage.DiskUses(summary, d.state.Layout != OneFS, volumes), nil
}
