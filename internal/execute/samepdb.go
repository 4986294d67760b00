package execute

import (
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// shareRefusal marks the candidates that the budget which has just refused a pod would refuse too
// (docs/adr/0012): no request is sent for those.
func (r *run) shareRefusal(pod *rank.Pod, result *evict.Result) {
	if !result.Outcome.OfBudget() || result.Budget == "" || !pod.Ready {
		return
	}
	shared := 0
	for i := range r.candidates {
		c := &r.candidates[i]
		same := c.Entry.Pod.LabelsHash == pod.LabelsHash
		if !c.mayShare(pod.Namespace) || !same && c.SamePDB != result.Budget {
			continue
		}
		c.BlockedByPDB, c.PDB = true, result.Budget
		if same {
			r.report.Shared = append(r.report.Shared, decide.Attempt{Entry: c.Entry, Result: *result})
		}
		shared++
	}
	if shared > 0 {
		r.note(fmt.Sprintf("%d more that PodDisruptionBudget %s/%s blocks were not tried", shared, pod.Namespace, result.Budget))
	}
}

// mayShare reports whether a budget of the namespace that has refused another may select the
// candidate, and no request was sent for it yet.
func (c *candidate) mayShare(namespace string) bool {
	return !c.fresh && !c.again && !c.BlockedByPDB && c.Entry.Pod.Ready && c.Entry.Pod.Namespace == namespace
}
