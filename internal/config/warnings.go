package config

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// mostOfIt is the share of a capacity above which a threshold can only be a mistake: a node
// that must keep four fifths of a resource free is under pressure as soon as it is used.
const mostOfIt = 0.8

// moreThanMemory is a threshold on memory that no node of ordinary size regains. It replaces the
// capacity, which is not in the file.
const moreThanMemory = 1 << 40

// ordinaryHighest is the highest priority that a PriorityClass of users may have
// (HighestUserDefinablePriority, pkg/apis/scheduling).
const ordinaryHighest = 1000000000

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
		warnings = append(warnings, lines[i].warnings(c, capacity(lines[i].Signal))...)
	}
	warnings = append(warnings, c.hardWarnings(lines)...)
	if !slices.Contains(c.Protect.Namespaces, systemNamespace) {
		warnings = append(warnings, "protect.namespaces: "+systemNamespace+
			" is not among them: pods of the cluster itself, such as its DNS, may be evicted")
	}
	return append(warnings, offsetWarnings(field.NewPath("queues"), c.Rules().Queues, 0)...)
}

// warnings names a threshold that is higher than any node, or this one, can mean, and one whose
// minimum reclaim the node cannot reach.
func (l *line) warnings(c *EvictdConfiguration, capacity int64) (warnings []string) {
	of := ""
	switch {
	case l.Signal == pressure.MemoryStall:
	case isShare(l.Written):
		if share(l.Written) > mostOfIt {
			of = "of the capacity"
		}
	case l.Signal.Kind() == pressure.MemoryKind && l.Quantity.Of(0) >= moreThanMemory:
		of = "of what most nodes have"
	case capacity > 0 && float64(l.Quantity.Of(0)) > mostOfIt*float64(capacity):
		of = "of the " + wording.Amount(l.Signal, capacity) + " that this node has"
	}
	if of != "" {
		const percent = 100
		warnings = append(warnings, fmt.Sprintf("%s: %s is more than %.0f%% %s: below it pods are evicted, and that is nearly always",
			l.path, l.Written, mostOfIt*percent, of))
	}
	reclaim, found := c.EvictionMinimumReclaim[l.Signal.String()]
	if found && capacity > 0 && l.Quantity.Of(capacity)+l.MinReclaim.Of(capacity) > capacity {
		warnings = append(warnings, fmt.Sprintf("%s: the threshold and %s together are more than the %s that this node has: the pressure never ends",
			field.NewPath(reclaimField).Key(l.Signal.String()), reclaim, wording.Amount(l.Signal, capacity)))
	}
	return warnings
}

// hardWarnings says where nothing is done at once, however little is left.
func (c *EvictdConfiguration) hardWarnings(lines []line) (warnings []string) {
	switch {
	case slices.ContainsFunc(lines, func(l line) bool { return l.Hard }):
		return nil
	case len(lines) == 0:
		warnings = append(warnings, hardField+": there is no threshold at all: evictd evicts no pod")
	default:
		warnings = append(warnings, hardField+": there is no hard threshold: however fast the node runs out, pods are evicted after a grace period only, or by the kubelet")
	}
	if c.DisruptionBudgets == BudgetsBestEffort {
		warnings = append(warnings, "disruptionBudgets: bestEffort is for hard thresholds, and there is none: budgets are respected")
	}
	return warnings
}

// offsetWarnings names the queues whose offsets, with those above, lift a pod without
// a priority above all priorities that users can give.
func offsetWarnings(path *field.Path, queues []rank.Queue, above int64) (warnings []string) {
	for i := range queues {
		q, at := &queues[i], path.Index(i)
		own := int64(q.Offset)
		if sum := min(above+own, math.MaxInt32); own > 0 && sum > ordinaryHighest {
			warnings = append(warnings, fmt.Sprintf(
				"%s: with offsets of %d in all, a pod of priority 0 counts as more than %d, the highest priority that users can give: the pods of all other queues are evicted before it",
				at.Child("properties").Key(propertyOffset), sum, ordinaryHighest))
		}
		warnings = append(warnings, offsetWarnings(at.Child("queues"), q.Queues, above+own)...)
	}
	return warnings
}
