package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// allocator allocates that much memory at the rate, once its gate is open.
func (b *bench) allocator(name string, rate, takes int64) node.Workload {
	return node.Workload{
		// Its limit is above its whole allocation, so that it causes no OOM kill.
		Name: name, UsesMiB: takes / mebibyte, AsksMiB: 16, LimitMiB: takes/mebibyte + 256,
		Flags: []string{"--memory-rate=" + strconv.FormatInt(rate, 10), "--start-file=/gates/" + name},
		Change: func(spec *corev1.PodSpec) {
			spec.TerminationGracePeriodSeconds = new(int64(5))
			node.Mount(spec, "gates", "/gates", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: b.Dir}})
			if b.settings.busy() {
				requestCPU(spec, allocatorRequest)
			}
		},
	}
}

// expose removes the label that protects the pod from evictd. A pod without it from its
// start could be evicted too early, when the rest of the machine uses memory.
func (b *bench) expose(ctx context.Context, name string) error {
	patch := []byte(`{"metadata":{"labels":{"` + looksOn + `":"false"}}}`)
	_, err := b.Node.Client.CoreV1().Pods(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("letting evictd have pod %s: %w", name, err)
	}
	const told = 300 * time.Millisecond // for evictd's watch
	return measure.Sleep(ctx, told)
}

const (
	// busyRequest is the CPU request of a pod that keeps one CPU in use: together such pods request
	// most of the node.
	busyRequest = "600m"
	// allocatorRequest is the allocator's, so that it reaches its rate beside them.
	allocatorRequest = "300m"
)

// busy keeps all CPUs in use.
func (b *bench) busy(ctx context.Context) error {
	for i := range runtime.NumCPU() {
		err := b.create(ctx, node.Workload{Name: "busy-" + strconv.Itoa(i), AsksMiB: 16, Flags: []string{"--spins=1"}, Change: func(spec *corev1.PodSpec) {
			spec.PriorityClassName = idlePriority
			requestCPU(spec, busyRequest)
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// share gives evictd a CPU request and no limit; "" changes nothing.
func (b *bench) share(ctx context.Context, request string) error {
	if request == "" {
		return nil
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"evictd","resources":{"requests":{"cpu":%q},"limits":{"cpu":null}}}]}}}}`, request)
	if err := b.Node.Change(ctx, "patch", "ds/evictd", "--patch", patch); err != nil {
		return err
	}
	b.Say("evictd has a CPU request of %s and no limit; %d pods with requests of %s use all CPUs.", request, runtime.NumCPU(), busyRequest)
	return nil
}

// requestCPU gives a pod's container a CPU request.
func requestCPU(spec *corev1.PodSpec, amount string) {
	spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
}
