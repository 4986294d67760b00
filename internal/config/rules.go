package config

import (
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
		Annotated:       c.Protect.Annotations == AnnotationsSoft,
		MinAge:          c.Protect.MinAge.Duration,
	}
}

// LabelKeys returns the keys of the labels that selectors name; not nil.
func (c *EvictdConfiguration) LabelKeys() []string {
	f := &faults{labelKeys: []string{}}
	f.queues(nil, c.Queues, nil, 1)
	f.selector(nil, &c.Protect.PodSelector)
	return f.labelKeys
}

// selector returns the function that says whether a selector matches labels, and checks the selector.
// It is nil for a selector of nothing.
func (f *faults) selector(path *field.Path, selector *metav1.LabelSelector) func(podLabels map[string]string) bool {
	if selector == nil || len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return nil
	}
	f.Add(metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)...)
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil { // it did not validate
		matcher = labels.Everything()
	}
	requirements, _ := matcher.Requirements()
	for i := range requirements {
		f.labelKeys = append(f.labelKeys, requirements[i].Key())
	}
	return func(podLabels map[string]string) bool { return matcher.Matches(labels.Set(podLabels)) }
}

// holds returns the function that says whether a queue has a pod of that namespace and those labels. It is nil
// where the queues below it say it.
func holds(patterns []string, selected func(map[string]string) bool) func(string, map[string]string) bool {
	if len(patterns) == 0 && selected == nil {
		return nil
	}
	patterns = slices.Clone(patterns)
	return func(namespace string, podLabels map[string]string) bool {
		named := len(patterns) == 0 || slices.ContainsFunc(patterns, func(pattern string) bool { return covers(pattern, namespace) })
		return named && (selected == nil || selected(podLabels))
	}
}
