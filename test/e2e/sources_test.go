//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/cluster"
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
		s.untilIn(3*time.Minute, "the figures of "+source+" are there", func(ctx context.Context) bool {
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

// diskUse runs the running evictd's binary, in its pod, to measure what the scene's pods use
// of the signal's filesystem.
func (s *scene) diskUse(ctx context.Context, signal string) map[string]int64 {
	s.Helper()
	out, err := live.Kubectl(ctx, "-n", node.Namespace, "exec", "ds/evictd", "--", "/evictd", "rank", "--config=/etc/evictd/evictd.yaml",
		"--node-name="+live.Name(), "--host-root=/host", "--signal="+signal, "--budgets=0", "-o=json")
	if err != nil {
		s.Logf("evictd rank: %v", err)
		return nil
	}
	type entry struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Usage     *int64 `json:"usage"`
	}
	var report struct {
		Candidates []entry `json:"candidates"`
		Protected  []entry `json:"protected"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		s.Logf("evictd rank prints %q: %v", out, err)
		return nil
	}
	used := map[string]int64{}
	for _, e := range append(report.Candidates, report.Protected...) {
		if e.Namespace == s.namespace && e.Usage != nil {
			used[e.Name] = *e.Usage
		}
	}
	return used
}

// readOnlyBelow checks that a hostPath of evictd's container, and everything mounted below
// it except for some files, is read-only: there, root could write other pods' limits.
func (s *scene) readOnlyBelow(dir string, but ...string) {
	s.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/mountinfo")
	s.must(err)
	mounts := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the process has ended
		}
		for line := range strings.Lines(string(text)) {
			// mountinfo: ID, parent, device, root, mount point, options: proc_pid_mountinfo(5)
			fields := strings.Fields(line)
			if len(fields) < 6 || slices.Contains(but, fields[4]) || fields[4] != dir && !strings.HasPrefix(fields[4], dir+"/") {
				continue
			}
			mounts++
			if !slices.Contains(strings.Split(fields[5], ","), "ro") {
				s.Errorf("%s of evictd's container can be written to: %s", fields[4], fields[5])
			}
		}
	}
	if mounts == 0 {
		s.Errorf("no process has %s mounted", dir)
	}
}

// withDiskNode gives evictd the component's rights to the pods' files for one test.
func (s *scene) withDiskNode() {
	s.Helper()
	s.withPatch(s.component("disk-node"))
}

// component returns the patch of a component of deploy.
func (s *scene) component(name string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(live.Files.Manifest), "components", name, "daemonset.patch.yaml"))
	s.must(err)
	return string(text)
}

// withPatch changes evictd's DaemonSet for one test.
func (s *scene) withPatch(patch string) {
	s.Helper()
	rolled := func(ctx context.Context, verb ...string) {
		s.Helper()
		_, err := live.Kubectl(ctx, append([]string{"-n", node.Namespace}, verb...)...)
		s.must(err)
		_, err = live.Kubectl(ctx, "-n", node.Namespace, "rollout", "status", "ds/evictd", "--timeout="+cluster.Patiently(90*time.Second).String())
		s.must(err)
	}
	rolled(s.Context(), "patch", "ds/evictd", "--patch", patch)
	s.Cleanup(func() { rolled(context.Background(), "rollout", "undo", "ds/evictd") })
}

func (s *scene) untilIn(atMost time.Duration, what string, met func(context.Context) bool) {
	s.Helper()
	if err := node.Until(s.Context(), atMost, met); err != nil {
		s.Fatalf("timed out waiting until %s", what)
	}
}
