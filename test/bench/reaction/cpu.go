package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/test/internal/node"
)

const (
	// busyRequest is the CPU request of a pod that keeps one CPU in use: together such pods request
	// most of the node.
	busyRequest = "600m"
	// allocatorRequest is the allocator's, so that it reaches its rate beside them.
	allocatorRequest = "300m"
)

// shares returns the CPU requests to measure with; "" leaves evictd its shipped resources.
func (s *settings) shares() []string {
	if len(s.cpus) == 0 {
		return []string{""}
	}
	return s.cpus
}

// share gives evictd a CPU request and no limit, and keeps all CPUs in use; "" changes nothing.
func (b *bench) share(ctx context.Context, request string) error {
	if request == "" {
		return nil
	}
	if !b.busy {
		for i := range runtime.NumCPU() {
			if err := b.create(ctx, busyPod(i)); err != nil {
				return err
			}
		}
		b.busy = true
	}
	patch := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"evictd","resources":{"requests":{"cpu":%q},"limits":{"cpu":null}}}]}}}}`, request)
	for _, words := range [][]string{{"patch", "ds/evictd", "--patch", patch}, {"rollout", "status", "ds/evictd", "--timeout=2m"}} {
		if _, err := b.Node.Kubectl(ctx, append([]string{"-n", node.Namespace}, words...)...); err != nil {
			return fmt.Errorf("giving evictd a CPU request of %s: %w", request, err)
		}
	}
	b.Say("evictd has a CPU request of %s and no limit; %d pods with requests of %s use all CPUs.", request, runtime.NumCPU(), busyRequest)
	return nil
}

// busyPod keeps one CPU in use.
func busyPod(i int) node.Workload {
	return node.Workload{Name: "busy-" + strconv.Itoa(i), AsksMiB: 16, Flags: []string{"--spins=1"}, Change: func(spec *corev1.PodSpec) {
		spec.PriorityClassName = idlePriority
		requestCPU(spec, busyRequest)
	}}
}

// requestCPU gives a pod's container a CPU request.
func requestCPU(spec *corev1.PodSpec, amount string) {
	spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(amount)
}
