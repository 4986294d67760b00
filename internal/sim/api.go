package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
)

// Evict implements [execute.Evictor].
func (n *Node) Evict(ctx context.Context, r evict.Request) evict.Result {
	n.reach("before the request is sent")
	result := n.evict(ctx, r)
	n.reach("after the API server's answer")
	if result.Outcome == evict.Deleted {
		n.reach("after a delete that bypasses a budget")
	}
	return result
}

// evict answers a request. The API server deletes what it evicts: the pod terminates, and ends with its memory when its
// grace period is over.
func (n *Node) evict(ctx context.Context, r evict.Request) evict.Result {
	sent := time.Now()
	n.mu.Lock()
	slow := n.slow
	if r.Name == n.hangs {
		slow = evict.RequestTimeout
	}
	n.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return evict.Result{Outcome: evict.Unconfirmed, NoResponse: true, Pending: true, Withdrawn: true, Stays: true, Message: context.Cause(ctx).Error(), Sent: sent}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.evictions = append(n.evictions, r)
	result := evict.Result{Outcome: taken(r)}
	if n.answer != nil {
		result = n.answer(r)
	} else if pod := n.pods[r.UID]; pod == nil || pod.removed() {
		result.Outcome = evict.Gone
	}
	result.Sent, result.Took = sent, time.Since(sent)
	if result.Outcome.Accepted() && !result.Outcome.Simulated() {
		n.terminate(r.UID, r.GraceSeconds)
	}
	return result
}

// taken returns the outcome of a request that the API server takes.
func taken(r evict.Request) evict.Outcome {
	return map[bool]map[bool]evict.Outcome{
		false: {false: evict.Evicted, true: evict.WouldEvict},
		true:  {false: evict.Deleted, true: evict.WouldDelete},
	}[r.Delete][r.DryRun]
}

// terminate is what the API server and the kubelet do with an evicted pod; the request may carry a
// grace period of its own. mu is held.
func (n *Node) terminate(uid string, grace ...*int64) {
	victim := n.pods[uid]
	leaving := victim.api.DeepCopy()
	// The API server's clock is an hour behind the node's.
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-time.Hour)}
	leaving.DeletionGracePeriodSeconds = leaving.Spec.TerminationGracePeriodSeconds
	for _, asked := range grace {
		if asked != nil {
			leaving.DeletionGracePeriodSeconds = asked
		}
	}
	victim.leaving = leaving
	if !n.behind {
		victim.api = leaving
	}
	if n.stubborn {
		return
	}
	ends := n.ends
	if n.endsAfter != nil {
		ends = n.endsAfter(uid, *leaving.DeletionGracePeriodSeconds)
	}
	n.After(ends, func() { delete(n.pods, uid) })
}

// evictByKubelet is how the kubelet evicts: the pod has finished and stays listed, nothing of it is deleted, and its
// cgroup and what it holds are gone. mu is held.
func (n *Node) evictByKubelet(name string) {
	n.changed(name, byKubelet)
	victim := n.pods["uid-"+name]
	victim.memory, victim.cache, victim.noCgroup = 0, 0, true
}

// byKubelet makes a pod one that the kubelet has evicted now.
func byKubelet(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet, LastTransitionTime: metav1.Now(),
	})
}

// Budget implements [execute.Evictor].
func (n *Node) Budget(_ context.Context, namespace, name string) (evict.Budget, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.budgetReads = append(n.budgetReads, name)
	budget, there := n.budgets[namespace+"/"+name]
	if there {
		budget.Name = name
	}
	return budget, n.unbudgeted
}

// Look implements [execute.Evictor].
func (n *Node) Look(_ context.Context, r evict.Request) (evict.Outcome, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looks = append(n.looks, r.Name)
	pod, there := n.pods[r.UID]
	switch {
	case n.unlooked != nil:
		return evict.Unconfirmed, n.unlooked
	case !there || pod.removed():
		return evict.Gone, nil
	case pod.leaving != nil:
		return r.Accepted(), nil
	default:
		return evict.Unconfirmed, nil
	}
}
