package config

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
)

// mostOfIt is the share of a capacity above which a threshold can only be a mistake: a node
// that must keep four fifths of a resource free is under pressure as soon as it is used.
const mostOfIt = 0.8

// systemNamespace is where the cluster's own pods are.
const systemNamespace = "kube-system"

// Warnings returns what is valid and probably not meant, one sentence each, with the path of the
// field; nil where the configuration is not valid. Capacity returns what the node has of a signal, in
// the signal's unit, and 0 where that is not known; nil knows no capacity.
func (c *EvictdConfiguration) Warnings(capacity func(pressure.Signal) int64) (warnings []string) {
	f := &faults{}
	lines := f.lines(c)
	if f.err() != nil {
		return nil
	}
	if capacity == nil {
		capacity = func(pressure.Signal) int64 { return 0 }
	}
	for i := range lines {
		warnings = append(warnings, lines[i].warnings(capacity(lines[i].Signal))...)
	}
	warnings = append(warnings, hardWarnings(lines)...)
	if !slices.Contains(c.Protect.Namespaces, systemNamespace) {
		warnings = append(warnings, "protect.namespaces: "+systemNamespace+
			" is not among them: pods of the cluster itself, such as its DNS, may be evicted")
	}
	return warnings
}

// warnings names a threshold that is higher than any node, or this one, can mean.
func (l *line) warnings(capacity int64) []string {
	of := ""
	switch {
	case l.Signal == pressure.MemoryStall:
	case share(l.Written) > mostOfIt:
		of = "of the capacity"
	case capacity > 0 && float64(l.Quantity.Of(0)) > mostOfIt*float64(capacity):
		of = "of the " + wording.Amount(l.Signal, capacity) + " that this node has"
	}
	if of == "" {
		return nil
	}
	const percent = 100
	return []string{fmt.Sprintf("%s: %s is more than %.0f%% %s: below it pods are evicted, and that is nearly always",
		l.path, l.Written, mostOfIt*percent, of)}
}

// hardWarnings says where nothing is done at once, however little is left.
func hardWarnings(lines []line) []string {
	switch {
	case slices.ContainsFunc(lines, func(l line) bool { return l.Hard }):
		return nil
	case len(lines) == 0:
		return []string{"evictionHard: there is no threshold at all: evictd evicts no pod"}
	default:
		return []string{"evictionHard: there is no hard threshold: however fast the node runs out, pods are evicted after a grace period only, or by the kubelet"}
	}
}
