package config

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// Warnings returns what is valid and probably not meant, one sentence each, with the path of the
// field; nil where the configuration is not valid. Capacity returns what the node has of a signal, in
// the signal's unit, and 0 where that is not known; nil knows no capacity.
func (c *EvictdConfiguration) Warnings(capacity func(pressure.Signal) int64) (warnings []string) {
	f := &faults{}
	lines := f.lines(c)
	if f.Err("invalid configuration") != nil {
		return nil
	}
	for i := range lines {
		if l := &lines[i]; l.Signal.Unit() == pressure.Bytes && !isShare(l.Written) && l.Quantity.Of(0) > 0 && l.Quantity.Of(0) < 1<<20 {
			warnings = append(warnings, fmt.Sprintf("%s: %s is less than 1Mi: write its unit, such as %s%% or %sMi", l.path, l.Written, l.Written, l.Written))
		}
		if of := lines[i].nearlyAll(capacity); of != "" {
			warnings = append(warnings, fmt.Sprintf("%s: %s is more than 80%% %s: below it pods are evicted, and that is nearly always",
				lines[i].path, lines[i].Written, of))
		}
	}
	switch {
	case len(lines) == 0:
		warnings = append(warnings, "evictionHard: there is no threshold at all: evictd evicts no pod")
	case !slices.ContainsFunc(lines, func(l line) bool { return l.Hard }):
		warnings = append(warnings, "evictionHard: there is no hard threshold: however fast the node runs out, pods are evicted after a grace period only, or by the kubelet")
	}
	if !slices.Contains(c.Protect.Namespaces, "kube-system") {
		warnings = append(warnings, "protect.namespaces: kube-system is not among them: pods of the cluster itself, such as its DNS, may be evicted")
	}
	return warnings
}

// nearlyAll returns of what a threshold is more than four fifths, "" for another one. That can only be a mistake: a
// node that must keep so much of a resource free is under pressure as soon as it is used.
func (l *line) nearlyAll(capacity func(pressure.Signal) int64) string {
	const most = 0.8
	switch {
	case l.Signal == pressure.MemoryStall:
		return ""
	case share(l.Written) > most:
		return "of the capacity"
	case capacity == nil:
		return ""
	}
	if has := capacity(l.Signal); has > 0 && float64(l.Quantity.Of(0)) > most*float64(has) {
		return "of the " + wording.Amount(l.Signal, has) + " that this node has"
	}
	return ""
}
