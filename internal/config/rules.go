package config

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/evictd/evictd/pkg/rank"
)

// Rules returns the protections and the queues that the configuration sets. An empty podSelector
// selects no pod. A podSelector that does not validate, which no loaded configuration has, protects
// every pod: what is not understood evicts no pod.
func (c *EvictdConfiguration) Rules() rank.Rules {
	f := &faults{} // a loaded configuration has none
	queues, _ := f.queues(nil, c.Queues, nil, 1)
	return rank.Rules{
		DaemonSets:      c.Protect.DaemonSets,
		BarePods:        c.Protect.BarePods,
		PinnedPods:      c.Protect.PinnedPods,
		PriorityAtLeast: c.Protect.PriorityAtLeast,
		Namespaces:      slices.Clone(c.Protect.Namespaces),
		Queues:          queues,
		Selected:        f.selector(nil, &c.Protect.PodSelector),
	}
}

// LabelKeys returns the keys of the labels that selectors name; not nil.
func (c *EvictdConfiguration) LabelKeys() []string {
	keys := []string{}
	for _, selector := range append(selectorsOf(c.Queues), &c.Protect.PodSelector) {
		keys = slices.AppendSeq(keys, maps.Keys(selector.MatchLabels))
		for i := range selector.MatchExpressions {
			keys = append(keys, selector.MatchExpressions[i].Key)
		}
	}
	return keys
}

func selectorsOf(queues []Queue) (selectors []*metav1.LabelSelector) {
	for i := range queues {
		if queues[i].PodSelector != nil {
			selectors = append(selectors, queues[i].PodSelector)
		}
		selectors = append(selectors, selectorsOf(queues[i].Queues)...)
	}
	return selectors
}

// among returns the function that says whether a namespace is one of the patterns; nil
// where there are none.
func among(patterns []string) func(namespace string) bool {
	if len(patterns) == 0 {
		return nil
	}
	patterns = slices.Clone(patterns)
	return func(namespace string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, namespace) })
	}
}

// selector returns the function that says whether a selector matches labels, and checks the selector.
// It is nil for a selector of nothing.
func (f *faults) selector(path *field.Path, selector *metav1.LabelSelector) func(podLabels map[string]string) bool {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil
	}
	f.add(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)...)
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil { // it did not validate
		matcher = labels.Everything()
	}
	return func(podLabels map[string]string) bool { return matcher.Matches(labels.Set(podLabels)) }
}

// both returns the function that says whether a queue has a pod of that namespace and those labels.
// A nil function is true for all; it is nil where both are, as the queues below say it then.
func both(named func(string) bool, selected func(map[string]string) bool) func(string, map[string]string) bool {
	if named == nil && selected == nil {
		return nil
	}
	return func(namespace string, podLabels map[string]string) bool {
		return (named == nil || named(namespace)) && (selected == nil || selected(podLabels))
	}
}
