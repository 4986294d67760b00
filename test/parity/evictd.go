package parity

import (
	"fmt"
	"slices"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// node is evictd's side of a state: its policy and its view of the pods.
type node struct {
	state      *State
	thresholds []pressure.Threshold
	signals    []pressure.Signal
	definition pressure.MemoryDefinition
	rules      rank.Rules
	pods       []*nodepods.Pod
}

func newNode(state *State) (*node, error) {
	c := state.configuration()
	thresholds := c.Thresholds()
	if thresholds == nil {
		return nil, fmt.Errorf("the thresholds are at fault: %+v", state.Thresholds)
	}
	n := &node{state: state, thresholds: thresholds, definition: c.MemoryAvailable, rules: c.Rules()}
	for _, t := range thresholds {
		if !slices.Contains(n.signals, t.Signal) {
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
func (n *node) order(signal pressure.Signal) rank.Ranking {
	if signal == pressure.AllocatableMemoryAvailable {
		return n.orderBy(signal, pressure.WorkingSet)
	}
	return n.orderBy(signal, n.definition)
}

// orderBy is order with memory.available measured by another definition.
func (n *node) orderBy(signal pressure.Signal, definition pressure.MemoryDefinition) rank.Ranking {
	var uses *decide.Uses
	if signal.OnDisk() {
		short := &pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}}
		uses = measure.DiskUses(short, n.pods, n.diskUses(), 0)
	} else {
		var read []usage.Pod
		for i := range n.state.Pods {
			if pod, ok := n.state.Pods[i].cgroup(); ok {
				read = append(read, pod)
			}
		}
		uses = measure.CgroupUses(signal, definition, n.pods, read)
	}
	return rank.Order(decide.RankedBy(signal), uses.Facts(signal, n.pods), n.rules)
}

// diskUses returns what the pods use by UID, by the kubelet's Summary.
func (n *node) diskUses() map[string]usage.DiskUse {
	var all []statsapi.PodStats
	for i := range n.state.Pods {
		if stats := n.state.Pods[i].stats(); stats != nil {
			all = append(all, *stats)
		}
	}
	volumes := make(map[string][]string, len(n.pods))
	for _, pod := range n.pods {
		volumes[pod.UID] = pod.DiskVolumes
	}
	return usage.DiskUses(n.state.summary(0, time.Time{}, all), n.state.Layout != OneFS, volumes)
}
