package fleet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hands act as the scheduler and the kubelets: they bind each pod to a node, report it as
// running, and end it when it is terminating. The watcher calls them for each pod.
type hands struct {
	f     *fleet
	work  sync.WaitGroup
	after atomic.Bool // agents run: new pods use the spare node and need startup time

	mu      sync.Mutex
	placed  int
	begun   map[string]bool // by UID: already started
	ending  map[string]bool
	started int
	failed  error
}

func newHands(f *fleet) *hands {
	return &hands{f: f, begun: map[string]bool{}, ending: map[string]bool{}}
}

// settled ends the setup phase.
func (h *hands) settled() { h.after.Store(true) }

func (h *hands) running() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started
}

func (h *hands) fault() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// see is called for each state of a pod.
func (h *hands) see(ctx context.Context, pod *corev1.Pod) {
	uid := string(pod.UID)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case pod.DeletionTimestamp != nil && !h.ending[uid]:
		h.ending[uid] = true
		h.do(ctx, func(ctx context.Context) error { return h.end(ctx, pod) })
	case pod.DeletionTimestamp == nil && pod.Spec.NodeName == "" && !h.begun[uid]:
		h.begun[uid] = true
		node := h.f.spare()
		if !h.after.Load() {
			node = h.f.nodeName(h.placed % h.f.options.Nodes)
			h.placed++
		}
		h.do(ctx, func(ctx context.Context) error { return h.begin(ctx, pod, node) })
	}
}

// do runs work in a goroutine; the caller holds the lock.
func (h *hands) do(ctx context.Context, work func(context.Context) error) {
	h.work.Go(func() {
		if err := work(ctx); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.failed = err
		}
	})
}

// begin binds a pod to a node and reports it as running.
func (h *hands) begin(ctx context.Context, pod *corev1.Pod, node string) error {
	pods := h.f.client.CoreV1().Pods(pod.Namespace)
	if node == h.f.spare() {
		pause(ctx, startup)
	}
	err := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("binding pod %s: %w", pod.Name, err)
	}
	bound, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading pod %s: %w", pod.Name, err)
	}
	bound.Status.Phase = corev1.PodRunning
	bound.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(ctx, bound, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("telling that pod %s runs: %w", pod.Name, err)
	}
	h.f.runs(node, string(pod.UID))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.started++
	return nil
}

// end ends a pod when its grace period is over: it reclaims the memory, and updates the API
// server.
func (h *hands) end(ctx context.Context, pod *corev1.Pod) error {
	pause(ctx, grace)
	h.f.ended(pod.Spec.NodeName, string(pod.UID))
	now := int64(0)
	err := h.f.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ending pod %s: %w", pod.Name, err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
