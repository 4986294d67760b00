//go:build e2e_all

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/test/internal/node"
)

// Evictd is killed when its victim has ended but the space is not reclaimed yet, as in the
// minute in which the kubelet has not removed the containers. Here the host has the victim's
// file open. The next process finds a full disk and a suitable pod, and waits for the space. It waits
// for 75 s after the victim's end, so that this test races the kubelet, which measures pods every 10 to
// 20 s: it is in e2e-all only.
func TestKilledBetweenVictimsEndAndItsSpace(t *testing.T) {
	const otherMiB, missingMiB = 100, 50
	s := newDiskScene(t, node.DiskSpace, otherMiB+greedyMiB-missingMiB)
	other := wrote(s, "other", fileOf("/data/fill", otherMiB))
	greedy := wrote(s, "greedy", fileOf("/data/fill", greedyMiB))
	held := openFile(s, greedy)
	if d := s.gone(&greedy.Pod); d.Verb != "Acted" || len(d.Attempts) != 1 {
		t.Errorf("the decision: %+v", d)
	}
	s.must(live.Kill(t.Context()))
	untilMeasuredAgain(s, &other.Pod)
	s.wantVictims(&greedy.Pod)
	if short := s.count(t.Context(), "evictd_pressure", "signal", node.DiskSpace, "kind", "Hard"); short != 1 {
		t.Errorf("evictd_pressure = %v: the disk is not short any more, and the test shows nothing", short)
	}
	s.must(held.Close())
	s.calm(node.DiskSpace)
	s.stays(&other.Pod)
	s.wantVictims(&greedy.Pod)
}

// openFile opens the file that a pod has written. Its space is reclaimed only when it is
// closed.
func openFile(s *scene, w *worker) *os.File {
	s.Helper()
	file, err := os.Open(live.Cluster.InNode(filepath.Join(emptyDirs(&w.Pod), "data", "fill")))
	s.must(err)
	s.Cleanup(func() { _ = file.Close() }) // closed already, unless the test failed
	return file
}

// untilMeasuredAgain waits until the kubelet has measured the disk use of a pod again.
func untilMeasuredAgain(s *scene, pod *corev1.Pod) {
	s.Helper()
	since := time.Now()
	s.until("the kubelet has measured "+pod.Name+" again", func(ctx context.Context) bool {
		summary, err := live.Summary(ctx)
		return err == nil && slices.ContainsFunc(summary.Pods, func(p statsapi.PodStats) bool {
			return p.PodRef.UID == string(pod.UID) && p.EphemeralStorage != nil && p.EphemeralStorage.Time.After(since)
		})
	})
}
