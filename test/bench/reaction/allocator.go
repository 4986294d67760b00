package main

import (
	"context"
	"fmt"
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
	_, gate := b.gate(name)
	return node.Workload{
		Name: name, UsesMiB: takes / mebibyte, AsksMiB: 16,
		Flags: []string{"--memory-rate=" + strconv.FormatInt(rate, 10), "--start-file=" + gate},
		Change: func(spec *corev1.PodSpec) {
			grace := int64(5)
			spec.TerminationGracePeriodSeconds = &grace
			node.Mount(spec, "gates", "/gates", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: b.Dir}})
			c := &spec.Containers[0]
			if len(b.settings.cpus) > 0 {
				requestCPU(spec, allocatorRequest)
			}
			// Above its whole allocation, so that its own limit causes no OOM kill.
			c.Resources.Limits = corev1.ResourceList{
				corev1.ResourceMemory: *resource.NewQuantity(takes+256*mebibyte, resource.BinarySI),
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
