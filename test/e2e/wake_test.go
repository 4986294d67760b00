//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// The shipped DaemonSet, without any right, is woken by the stalls of the node, and is
// refused those of the pods.
func TestNodesStallWakesTheShippedEvictd(t *testing.T) {
	s := newScene(t, true)
	wantWakeups(s, "Node", 1)
	wantWakeups(s, "Kubepods", 0)
	woken := stallEvents(t.Context(), s, "Node")
	thrash(s)
	s.until("the kernel wakes evictd for the node", func(ctx context.Context) bool { return stallEvents(ctx, s, "Node") > woken })
}

// With the component kubepods-trigger the kernel wakes evictd for the stalls of the pods too.
// Evictd can write to nothing else of the cgroups.
func TestPodsStallWakesEvictdWithTheComponent(t *testing.T) {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil {
		t.Skip("SKIP: this machine has cgroup v1, which does not account for the stalls of a group; make e2e-cgroup2 has version 2")
	}
	s := newScene(t, true)
	// The node's cgroups are below a group of their own here, and its driver is cgroupfs.
	found, err := filepath.Glob("/sys/fs/cgroup/*/kubepods/memory.pressure")
	s.must(err)
	if len(found) != 1 {
		t.Fatalf("the pods' cgroup: %q", found)
	}
	s.withPatch(strings.ReplaceAll(s.component("kubepods-trigger"), "/sys/fs/cgroup/kubepods.slice/memory.pressure", found[0]))
	for _, source := range []string{"Node", "Kubepods"} {
		wantWakeups(s, source, 1)
	}
	ofNode, ofPods := stallEvents(t.Context(), s, "Node"), stallEvents(t.Context(), s, "Kubepods")
	thrash(s)
	s.until("the kernel wakes evictd for the pods", func(ctx context.Context) bool { return stallEvents(ctx, s, "Kubepods") > ofPods })
	s.until("the kernel wakes evictd for the node", func(ctx context.Context) bool { return stallEvents(ctx, s, "Node") > ofNode })
	s.readOnlyBelow("/host/sys/fs/cgroup", "/host"+found[0])
}

// wantWakeups fails the test unless evictd has opened the source, or has not.
func wantWakeups(s *scene, source string, want float64) {
	s.Helper()
	s.until(fmt.Sprintf("evictd_wakeups of %s is %v", source, want), func(ctx context.Context) bool {
		return s.count(ctx, "evictd_wakeups", "source", source) == want
	})
}

// stallEvents returns how many events of the source there were.
func stallEvents(ctx context.Context, s *scene, source string) float64 {
	s.Helper()
	return s.count(ctx, "evictd_stall_events_total", "source", source)
}

// thrash creates pods that each read a file which is much larger than their limit, without a pause: to its end it
// takes them longer than any test.
func thrash(s *scene) {
	s.Helper()
	const pods = 6 // on a fast disk one of them stalls for some milliseconds a second only
	for i := range pods {
		s.deploy(node.Workload{
			Name: fmt.Sprintf("thrashing-%d", i), UsesMiB: 1, AsksMiB: 10, LimitMiB: 60,
			Flags: []string{"--cache=/data/cache", "--cache-bytes=1Ti"},
			Change: func(spec *corev1.PodSpec) {
				node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			},
		})
	}
}
