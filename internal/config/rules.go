package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Rules returns the protections and the queues that the configuration sets. An empty podSelector
// selects no pod. A podSelector that does not validate, which no loaded configuration has, protects
// every pod: what is not understood evicts no pod.
func (c *EvictdConfiguration) Rules() rank.Rules {
	return rank.Rules{
		DaemonSets:      c.Protect.DaemonSets,
		BarePods:        c.Protect.BarePods,
		PinnedPods:      c.Protect.PinnedPods,
		PriorityAtLeast: c.Protect.PriorityAtLeast,
		Namespaces:      slices.Clone(c.Protect.Namespaces),
		Queues:          rankQueues(c.Queues),
		Selected:        selected(&c.Protect.PodSelector),
		Annotated:       among(c.Protect.AnnotationNamespaces),
	}
}

// LabelKeys returns the keys of the labels that selectors name; not nil.
func (c *EvictdConfiguration) LabelKeys() []string {
	return append(keysOf(&c.Protect.PodSelector), queueKeys(c.Queues)...)
}

func queueKeys(queues []Queue) (keys []string) {
	for i := range queues {
		if selector := queues[i].PodSelector; selector != nil {
			keys = append(keys, keysOf(selector)...)
		}
		keys = append(keys, queueKeys(queues[i].Queues)...)
	}
	return keys
}

func keysOf(selector *metav1.LabelSelector) []string {
	keys := []string{}
	for key := range selector.MatchLabels {
		keys = append(keys, key)
	}
	for i := range selector.MatchExpressions {
		keys = append(keys, selector.MatchExpressions[i].Key)
	}
	return keys
}

// MemoryDefinition returns how memory.available is measured.
func (c *EvictdConfiguration) MemoryDefinition() pressure.MemoryDefinition {
	if c.MemoryAvailable == MemoryWorkingSet {
		return pressure.WorkingSet
	}
	return pressure.Kernel
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

func selected(selector *metav1.LabelSelector) func(map[string]string) bool {
	if len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0 {
		return nil
	}
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		matcher = labels.Everything()
	}
	return func(podLabels map[string]string) bool { return matcher.Matches(labels.Set(podLabels)) }
}
