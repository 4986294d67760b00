package fleet

import (
	"context"
	"fmt"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/evictd/evictd/internal/permits"
)

// watcher sees every state of pods, budgets and permits, in their order, and keeps the worst
// of each.
type watcher struct {
	f *fleet

	mu       sync.Mutex
	ready    map[string]map[string]bool // by workload: the UIDs that are ready and not terminating
	leaving  map[string]map[string]bool
	permits  map[string]map[string]bool // by workload: the Leases
	least    map[string]int32           // desiredHealthy, by workload
	violated map[string]int
	most     most
}

// most is the maximum that was seen at once for one workload.
type most struct{ leaving, permits int }

func newWatcher(f *fleet) *watcher {
	return &watcher{
		f: f, ready: map[string]map[string]bool{}, leaving: map[string]map[string]bool{}, permits: map[string]map[string]bool{},
		least: map[string]int32{}, violated: map[string]int{},
	}
}

// start watches until the context ends.
func (w *watcher) start(ctx context.Context) error {
	theirs := informers.NewSharedInformerFactoryWithOptions(w.f.client, 0, informers.WithNamespace(w.f.namespace))
	own := informers.NewSharedInformerFactoryWithOptions(w.f.client, 0, informers.WithNamespace(w.f.own))
	for _, one := range []struct {
		informer cache.SharedIndexInformer
		see      func(object any, gone bool)
	}{
		{theirs.Core().V1().Pods().Informer(), func(o any, gone bool) { w.pod(ctx, o, gone) }},
		{theirs.Policy().V1().PodDisruptionBudgets().Informer(), w.budget},
		{own.Coordination().V1().Leases().Informer(), w.lease},
	} {
		if _, err := one.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { one.see(o, false) },
			UpdateFunc: func(_, o any) { one.see(o, false) },
			DeleteFunc: func(o any) { one.see(o, true) },
		}); err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	for _, factory := range []informers.SharedInformerFactory{theirs, own} {
		factory.Start(ctx.Done())
		factory.WaitForCacheSync(ctx.Done())
	}
	return ctx.Err()
}

// note adds a member to one of the sets or removes it, and returns the set's size.
func note(sets map[string]map[string]bool, of, member string, in bool) int {
	if sets[of] == nil {
		sets[of] = map[string]bool{}
	}
	if in {
		sets[of][member] = true
	} else {
		delete(sets[of], member)
	}
	return len(sets[of])
}

func (w *watcher) pod(ctx context.Context, object any, gone bool) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return // a tombstone: the watch was never cut
	}
	if !gone {
		w.f.hands.see(ctx, pod)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	workload, uid := workloadOf(pod), string(pod.UID)
	leaving := !gone && pod.DeletionTimestamp != nil
	w.most.leaving = max(w.most.leaving, note(w.leaving, workload, uid, leaving))
	before := len(w.ready[workload])
	now := note(w.ready, workload, uid, !gone && !leaving && isReady(pod))
	if least, known := w.least[workload]; known && now < before && now < int(least) && w.f.hands.after.Load() {
		w.violated[workload]++
	}
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// budget checks the disruption controller's own count.
func (w *watcher) budget(object any, gone bool) {
	budget, ok := object.(*policyv1.PodDisruptionBudget)
	if !ok || gone {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.least[budget.Name] = budget.Status.DesiredHealthy
	if w.f.hands.after.Load() && budget.Status.CurrentHealthy < budget.Status.DesiredHealthy {
		w.violated[budget.Name]++
	}
}

func (w *watcher) lease(object any, gone bool) {
	lease, ok := object.(*coordinationv1.Lease)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	held := !gone && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
	w.most.permits = max(w.most.permits, note(w.permits, lease.Annotations[permits.AnnotationWorkload], lease.Name, held))
}
