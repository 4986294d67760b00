//go:build e2e_all

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// TestDiskSourcesAgree: with the component disk-node, evictd's count of the files equals the
// kubelet's a minute later: a writable layer, an emptyDir, and nothing of an emptyDir in
// memory.
func TestDiskSourcesAgree(t *testing.T) {
	s := newScene(t, true, "disk: {source: node}\n")
	s.withDiskNode()
	s.readOnlyBelow("/host/sys/fs/cgroup")
	const written = int64(40 << 20)
	volume := func(medium corev1.StorageMedium) func(*corev1.PodSpec) {
		return func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}}}
			spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
		}
	}
	want := map[string]int64{}
	for name, w := range map[string]struct {
		path   string
		change func(*corev1.PodSpec)
		used   int64
	}{
		"layer":  {"/written", nil, written},
		"volume": {"/cache/written", volume(corev1.StorageMediumDefault), written},
		"memory": {"/cache/written", volume(corev1.StorageMediumMemory), 0},
	} {
		pod := s.deploy(node.Workload{Name: name, UsesMiB: 1, AsksMiB: 60, Change: w.change, Flags: []string{"--write=" + w.path, "--write-bytes=40Mi"}})
		want[pod.Name] = w.used
	}
	figures := map[string]map[string]int64{}
	for _, source := range []string{"node", "summary"} {
		s.threshold(node.PodMemory, headroom, true, "disk: {source: "+source+"}\nkubelet: {insecureSkipTLSVerify: true}\n")
		s.until("the figures of "+source+" are there", func(ctx context.Context) bool {
			figures[source] = s.diskUse(ctx, node.DiskSpace)
			for name, used := range want {
				is, known := figures[source][name]
				// The kubelet's are older; directories and logs add a little.
				if !known || is < used || is > used+1<<20 {
					return false
				}
			}
			return true
		})
		t.Logf("%s: %v", source, figures[source])
	}
}
