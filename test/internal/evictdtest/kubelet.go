package evictdtest

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Kubelet is a fake kubelet: a terminating pod ends, unless it is held, and its memory is reclaimed.
type Kubelet struct {
	w    *World
	host *Host

	mu      sync.Mutex
	memory  map[string]int64 // MiB, by the pod's name
	held    bool             // no pod ends
	victims []string
	seen    map[types.UID]bool
}

// StartKubelet ends terminating pods until the test is over. Memory is what the end of a pod reclaims,
// in MiB, by its name.
func StartKubelet(w *World, h *Host, memory map[string]int64) *Kubelet {
	k := &Kubelet{w: w, host: h, memory: memory, seen: map[types.UID]bool{}}
	ctx, cancel := context.WithCancel(w.T.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, k.sync, 50*time.Millisecond) // the pace of the kubelet that it stands for
	}()
	w.T.Cleanup(func() { cancel(); <-ended })
	return k
}

// Hold keeps terminating pods running, or lets them end.
func (k *Kubelet) Hold(held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = held
}

// Victims returns the names of the pods that were evicted, in their order.
func (k *Kubelet) Victims() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.victims)
}

// sync ends the pods whose time has come.
func (k *Kubelet) sync(ctx context.Context) {
	pods, err := k.w.Client.CoreV1().Pods(k.w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // the fault is the test's own
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.DeletionTimestamp == nil || k.runs(pod) {
			continue
		}
		if k.w.Client.CoreV1().Pods(k.w.Namespace).Delete(ctx, pod.Name, AtOnce()) == nil {
			k.host.End(pod, k.memory[pod.Name])
		}
	}
}

// runs records a terminating pod and reports whether it is still running.
func (k *Kubelet) runs(pod *corev1.Pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.seen[pod.UID] {
		k.seen[pod.UID] = true
		k.victims = append(k.victims, pod.Name)
	}
	return k.held
}
