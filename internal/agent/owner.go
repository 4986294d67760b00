package agent

import (
	"time"

	"github.com/evictd/evictd/pkg/rank"
)

// newestOf returns when the youngest pod of the pod's owner on the node was made.
func newestOf(ranking *rank.Ranking, of *rank.Pod) time.Time {
	newest := of.Created
	for _, pod := range siblingsOf(ranking, of) {
		if pod.Created.After(newest) {
			newest = pod.Created
		}
	}
	return newest
}

// livingOf returns when each pod of the pod's owner was made that lives on the node.
func livingOf(ranking *rank.Ranking, of *rank.Pod) []time.Time {
	var created []time.Time
	for _, pod := range siblingsOf(ranking, of) {
		if !pod.Marks.Terminating && !pod.Marks.Finished {
			created = append(created, pod.Created)
		}
	}
	return created
}

// siblingsOf returns the pods of the pod's owner on the node, the pod among them.
func siblingsOf(ranking *rank.Ranking, of *rank.Pod) []*rank.Pod {
	var siblings []*rank.Pod
	for _, entries := range [][]rank.Entry{ranking.Candidates, ranking.Protected} {
		for i := range entries {
			if pod := entries[i].Pod; pod.OwnerUID == of.OwnerUID {
				siblings = append(siblings, pod)
			}
		}
	}
	return siblings
}
