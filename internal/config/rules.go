package config

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evictd/evictd/pkg/rank"
)

// Rules returns the protections and the queues that the configuration asks for. An empty
// podSelector selects no pod. One that does not validate, which no loaded
// configuration has, protects every pod: what is not understood evicts nobody.
func (c *EvictdConfiguration) Rules() rank.Rules {
	return rank.Rules{
		DaemonSets:      c.Protect.DaemonSets,
		BarePods:        c.Protect.BarePods,
		PriorityAtLeast: c.Protect.PriorityAtLeast,
		Namespaces:      slices.Clone(c.Protect.Namespaces),
		Queues:          rankQueues(c.Queues),
		Selected:        selected(&c.Protect.PodSelector),
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
