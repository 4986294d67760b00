// Package kubeletconfig reads the configuration of the node's kubelet, and compares its thresholds
// with evictd's: evictd should act first, and the kubelet should remain the backstop.
//
// The comparison is one of the two configurations. What memory.available is differs, unless evictd is configured to
// use the kubelet's definition: there page cache in use counts as used, so that the kubelet may act first although
// its threshold is lower.
package kubeletconfig

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Finding is what was found of one signal: evictd acts first, where it says nothing else.
type Finding struct {
	Signal pressure.Signal
	// First says that the kubelet would act before evictd, and Maybe that it may, which depends on how fast the
	// node fills up.
	First, Maybe bool
	// Detail is one sentence then: both values, what would happen, and what to write.
	Detail string
}

// Compare says where the kubelet would act before evictd, of each signal for which evictd has a threshold and a
// reading, whose capacity alone matters. A signal without a threshold is left to the kubelet, which is no error, but
// for allocatableMemory.available. A threshold of memory.available need not be ahead of one of the kubelet's where one
// of kubeletMemory.available is.
func Compare(ours []pressure.Threshold, kubelet *Configuration, sample *pressure.Sample) (findings []Finding) {
	for _, signal := range pressure.Signals() {
		p := pairOf(signal, ours, kubelet, sample)
		if p == nil {
			continue
		}
		if signal == pressure.MemoryAvailable {
			own := of(pressure.KubeletMemoryAvailable, ours)
			p.theirs = slices.DeleteFunc(p.theirs, func(t pressure.Threshold) bool { return ahead(own, &t, p.capacity) })
		}
		finding := Finding{Signal: signal}
		if at := slices.IndexFunc(p.theirs, func(t pressure.Threshold) bool { return !ahead(p.ours, &t, p.capacity) }); at >= 0 {
			finding = p.finding(&p.theirs[at], strings.Join(kubelet.Files, ", "))
		}
		findings = append(findings, finding)
	}
	return findings
}

// pair is one signal's thresholds on both sides.
type pair struct {
	signal       pressure.Signal
	capacity     int64
	ours, theirs []pressure.Threshold
}

// pairOf returns nil where there is nothing to compare. Evictd should have a threshold of
// allocatableMemory.available where the kubelet has the copy that it makes of its hard one of memory.available:
// it is in no file, so it was not left to the kubelet. Where the limit is not below the node's memory, a threshold
// of memory.available is met before.
func pairOf(signal pressure.Signal, ours []pressure.Threshold, kubelet *Configuration, sample *pressure.Sample) *pair {
	seen, ours := sample.Of(signal), of(signal, ours)
	copied := signal == pressure.AllocatableMemoryAvailable && seen.Capacity < sample.Of(pressure.MemoryAvailable).Capacity
	kubelets, has := signal.Kubelets()
	theirs := of(kubelets, kubelet.Thresholds)
	if !has || seen.State != pressure.Known || len(ours) == 0 && (!copied || len(theirs) == 0) {
		return nil
	}
	return &pair{signal, seen.Capacity, ours, theirs}
}

// of returns the thresholds of one signal, in their order: hard ones first.
func of(signal pressure.Signal, all []pressure.Threshold) []pressure.Threshold {
	return slices.DeleteFunc(slices.Clone(all), func(t pressure.Threshold) bool { return t.Signal != signal })
}

// ahead reports whether one of the thresholds is met sooner than the kubelet's as the signal falls,
// and waits no longer. At equal lines the kubelet, which looks every ten seconds, acts as soon as a
// victim of evictd's takes longer than that to end.
func ahead(ours []pressure.Threshold, theirs *pressure.Threshold, capacity int64) bool {
	return slices.ContainsFunc(ours, func(t pressure.Threshold) bool {
		return t.Quantity.Of(capacity) > theirs.Quantity.Of(capacity) && t.Grace <= theirs.Grace
	})
}

// finding says what follows from a threshold of the kubelet's, by those files, that none of evictd's is ahead of.
// One of evictd's may be met before and wait longer.
func (p *pair) finding(theirs *pressure.Threshold, files string) Finding {
	maybe, own := false, "has no threshold there"
	if len(p.ours) > 0 {
		first := &p.ours[0]
		maybe, own = p.line(first) > p.line(theirs), "below "+p.written(first)
	}
	manner, wait := " and with one second of grace", ""
	if !theirs.Hard {
		manner, wait = "", fmt.Sprintf(" with a grace period of at most %v", theirs.Grace)
	}
	do := fmt.Sprintf("write a threshold above %s%s in evictd's configuration, or a lower one in the kubelet's",
		wording.Amount(p.signal, p.line(theirs)), wait)
	if len(p.ours) == 0 {
		do = fmt.Sprintf("write %s: %dMi, which is twice as much, in evictd's evictionHard", p.signal, (2*p.line(theirs)+mebibyte-1)/mebibyte)
	}
	return Finding{p.signal, !maybe, maybe, fmt.Sprintf("the kubelet evicts below %s, by %s, without asking budgets%s; evictd %s; %s",
		p.written(theirs), files, manner, own, do)}
}

const mebibyte = 1 << 20

func (p *pair) line(t *pressure.Threshold) int64 { return t.Quantity.Of(p.capacity) }

// written returns a threshold as an amount, with its kind and the time it waits.
func (p *pair) written(t *pressure.Threshold) string {
	if t.Hard {
		return wording.Amount(p.signal, p.line(t)) + " (hard)"
	}
	return fmt.Sprintf("%s for %v (soft)", wording.Amount(p.signal, p.line(t)), t.Grace)
}
