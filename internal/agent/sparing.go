package agent

import (
	"fmt"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// refusedOf returns what the back-off needs to know of a pod.
func refusedOf(pod *rank.Pod) cooldown.Pod {
	return cooldown.Pod{UID: pod.UID, Namespace: pod.Namespace, Ready: pod.Ready}
}

// lastAnswer says why a pod backs off. A budget's answer may have been about another of its
// pods.
func (a *Agent) lastAnswer(pod *rank.Pod, last evict.Outcome) string {
	if budget := a.backoff.Budget(pod.UID); budget != "" {
		return fmt.Sprintf("the last answer of PodDisruptionBudget %s was %s", budget, last)
	}
	return "the last answer was " + string(last)
}
