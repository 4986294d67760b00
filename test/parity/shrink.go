package parity

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Shrink returns the smallest state it finds that still fails, and its differences.
func Shrink(ctx context.Context, state *State, ranker Ranker) (*State, []string) {
	smallest, faults := state, failure(ctx, state, ranker)
	for shrunk := true; shrunk; {
		shrunk = false
		for _, smaller := range smaller(smallest) {
			if found := failure(ctx, smaller, ranker); found != nil {
				smallest, faults, shrunk = smaller, found, true
				break
			}
		}
	}
	return smallest, faults
}

// failure returns the differences, nil where there are none or the state is not valid. The
// kubelet chooses at random among several signals, so a state with several is tried until it
// is nearly certain that each was chosen.
func failure(ctx context.Context, state *State, ranker Ranker) []string {
	tries := 1
	if len(state.Thresholds.signals()) > 1 {
		tries = 40
	}
	for range tries {
		report, err := Compare(ctx, state, ranker)
		if err != nil {
			return nil
		}
		if len(report.Unexplained) > 0 {
			return report.Unexplained
		}
	}
	return nil
}

// smaller returns states with slightly less content, the largest cuts first.
func smaller(s *State) []*State {
	var all []*State
	try := func(change func(*State)) {
		c := s.clone()
		change(c)
		all = append(all, c)
	}
	// One signal first: then there is no choice any more.
	for _, signal := range s.Thresholds.signals() {
		try(func(c *State) { c.drop(signal) })
	}
	for size := len(s.Pods) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(s.Pods); from += size {
			try(func(c *State) { c.Pods = slices.Delete(c.Pods, from, from+size) })
		}
	}
	for i := range s.Readings {
		try(func(c *State) { c.Readings = slices.Delete(c.Readings, i, i+1) })
	}
	for _, signal := range slices.Sorted(maps.Keys(s.Thresholds.Hard)) {
		try(func(c *State) { delete(c.Thresholds.Hard, signal) })
	}
	for _, signal := range slices.Sorted(maps.Keys(s.Thresholds.Soft)) {
		try(func(c *State) { delete(c.Thresholds.Soft, signal); delete(c.Thresholds.Grace, signal) })
	}
	for _, signal := range slices.Sorted(maps.Keys(s.Thresholds.Reclaim)) {
		try(func(c *State) { delete(c.Thresholds.Reclaim, signal) })
	}
	if s.Self != "" || s.Protect != (Protect{PriorityAtLeast: s.Protect.PriorityAtLeast}) {
		try(func(c *State) { c.Self, c.Protect = "", Protect{PriorityAtLeast: c.Protect.PriorityAtLeast} })
	}
	for i := range s.Pods {
		all = append(all, plainer(s, i)...)
	}
	return all
}

// signals returns the names of the signals that have a threshold, sorted.
func (t *Thresholds) signals() []string {
	names := append(slices.Collect(maps.Keys(t.Hard)), slices.Collect(maps.Keys(t.Soft))...)
	slices.Sort(names)
	return slices.Compact(names)
}

// drop removes a signal's thresholds.
func (s *State) drop(signal string) {
	t := &s.Thresholds
	for _, texts := range []map[string]string{t.Hard, t.Soft, t.Grace, t.Reclaim} {
		delete(texts, signal)
	}
}

// plainer returns states in which one pod has fewer properties.
func plainer(s *State, index int) []*State {
	var all []*State
	try := func(useful bool, change func(*Pod)) {
		if useful {
			c := s.clone()
			change(&c.Pods[index])
			all = append(all, c)
		}
	}
	p := &s.Pods[index]
	try(len(p.Volumes) > 0, func(p *Pod) { p.Volumes = nil })
	try(p.Overhead != nil, func(p *Pod) { p.Overhead = nil })
	try(p.Requests != nil || p.Limits != nil, func(p *Pod) { p.Requests, p.Limits = nil, nil })
	try(p.Label != nil, func(p *Pod) { p.Label = nil })
	try(p.Priority != nil, func(p *Pod) { p.Priority = nil })
	try(p.Age != 0, func(p *Pod) { p.Age = 0 })
	try(p.Kind != Replica, func(p *Pod) { p.Kind = Replica })
	try(p.Terminating || p.Finished, func(p *Pod) { p.Terminating, p.Finished = false, false })
	for i := range p.Containers {
		c := &p.Containers[i]
		try(len(p.Containers) > 1, func(p *Pod) { p.Containers = slices.Delete(p.Containers, i, i+1) })
		try(len(c.Requests) > 0 && c.Allocated == "", func(p *Pod) { p.Containers[i].Requests = nil })
		try(c.Allocated != "", func(p *Pod) { p.Containers[i].Allocated = "" })
	}
	return all
}

// clone returns a deep copy.
func (s *State) clone() *State {
	var c State
	text, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		panic(fmt.Sprintf("copying a state: %v", err)) // it has plain values
	}
	return &c
}

// Explain returns the state as text, with its differences.
func Explain(state *State, faults []string) (string, error) {
	written, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing a state: %w", err)
	}
	return strings.Join(append([]string{string(written)}, faults...), "\n"), nil
}
