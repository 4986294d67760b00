package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// rankQueues returns the queues as package rank takes them. What does not validate,
// which no loaded configuration has, means the default.
func rankQueues(queues []Queue) []rank.Queue {
	var ranked []rank.Queue
	for i := range queues {
		q := &queues[i]
		ranked = append(ranked, rank.Queue{
			Name:             q.Name,
			Holds:            q.holds(),
			ByLabels:         q.selects(),
			Fence:            q.is(propertyPolicy, policyFence),
			Offset:           q.offset(),
			IgnorePriority:   q.is(propertySort, sortDisabled),
			GuaranteedMemory: q.guaranteedMemory(),
			Queues:           rankQueues(q.Queues),
		})
	}
	return ranked
}

// holds returns the function that says which pods belong to the queue; nil where the
// queues below say it.
func (q *Queue) holds() func(string, map[string]string) bool {
	named := among(q.Namespaces)
	if named == nil && !q.selects() {
		return nil
	}
	var matches func(map[string]string) bool
	if q.selects() {
		matches = selected(q.PodSelector)
	}
	return func(namespace string, labels map[string]string) bool {
		return (named == nil || named(namespace)) && (matches == nil || matches(labels))
	}
}

func (q *Queue) is(property, value string) bool {
	return strings.EqualFold(q.Properties[property], value)
}

func (q *Queue) offset() int32 {
	n, err := strconv.ParseInt(q.Properties[propertyOffset], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

func (q *Queue) guaranteedMemory() int64 {
	amount, err := ParseAmount(q.Guaranteed["memory"])
	if err != nil {
		return 0
	}
	return amount
}

// ordinaryHighest is the highest priority that a PriorityClass of users may have
// (HighestUserDefinablePriority, pkg/apis/scheduling).
const ordinaryHighest = 1000000000

// budgetWarnings reports settings with which no pressure could ever bypass a budget.
func (c *EvictdConfiguration) budgetWarnings() []string {
	thresholds, err := c.Thresholds()
	isHard := func(t pressure.Threshold) bool { return t.Hard }
	if c.DisruptionBudgets != BudgetsBestEffort || err != nil || slices.ContainsFunc(thresholds, isHard) {
		return nil
	}
	return []string{"disruptionBudgets: bestEffort is for hard thresholds, and there is none: budgets are respected"}
}

// offsetWarnings names the queues whose offsets, with those above, lift a pod without
// a priority above all priorities that users can give.
func offsetWarnings(path *field.Path, queues []Queue, above int64) []string {
	var warnings []string
	for i := range queues {
		q, at := &queues[i], path.Index(i)
		own := int64(q.offset())
		if sum := min(above+own, math.MaxInt32); own > 0 && sum > ordinaryHighest {
			warnings = append(warnings, fmt.Sprintf(
				"%s: with offsets of %d in all, a pod of priority 0 counts as more than %d, the highest priority that users can give: the pods of all other queues are evicted before it",
				at.Child("properties").Key(propertyOffset), sum, ordinaryHighest))
		}
		next := above + own
		warnings = append(warnings, offsetWarnings(at.Child("queues"), q.Queues, next)...)
	}
	return warnings
}
