//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// The host used the space: first through a pod that wrote into a hostPath, then through a
// file of its own. No pod's end would reclaim it.
func TestDiskFilledByTheHostEvictsNoPod(t *testing.T) {
	s := newDiskScene(t, node.DiskSpace, untilMetMiB)
	modest := modestWriter(s)
	here, there := live.HostPath("mounted")
	t.Cleanup(func() { _ = os.RemoveAll(here) }) // removed already, unless the test failed
	kind := corev1.HostPathDirectoryOrCreate
	into := writer(s, "into-the-host", []string{"--write=/host/fill", fmt.Sprintf("--write-bytes=%dMi", greedyMiB)}, func(spec *corev1.PodSpec) {
		node.Mount(spec, "host", "/host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: there, Type: &kind}})
	})
	into.works()
	filledElsewhere(s, 0)
	s.must(os.RemoveAll(here))
	s.calm(node.DiskSpace)

	own := hostsFile(s, "own", greedyMiB)
	filledElsewhere(s, 1)
	s.must(os.Remove(own))
	s.calm(node.DiskSpace)

	s.stays(&modest.Pod)
	s.stays(&into.Pod)
	s.wantVictims()
}

// hostsFile writes a file on the node's filesystem that belongs to no pod.
func hostsFile(s *scene, name string, mebibytes int) string {
	s.Helper()
	path, _ := live.HostPath(name)
	s.Cleanup(func() { _ = os.Remove(path) }) // removed already, unless the test failed
	s.must(os.WriteFile(path, make([]byte, mebibytes<<20), 0o600))
	return path
}

// filledElsewhere waits for an Event on the node, beyond the existing ones, and compares the
// metric with what was written.
func filledElsewhere(s *scene, before int32) {
	s.Helper()
	message := ""
	s.until("an Event on the node says that evictions would not suffice", func(ctx context.Context) bool {
		var count int32
		message, count = eventsOnTheNode(ctx, s)
		return count > before
	})
	s.Log(message)
	// They are reported every 30 s.
	s.until("the metric shows what uses the space", func(ctx context.Context) bool {
		used := func(part string) float64 {
			return s.count(ctx, "evictd_disk_used_bytes", "signal", node.DiskSpace, "part", part) / (1 << 20)
		}
		pods := used("Layers") + used("Logs") + used("EmptyDirs")
		return used("Other") >= greedyMiB && used("EmptyDirs") >= modestMiB && pods < modestMiB+10
	})
}

// eventsOnTheNode returns how often evictd has reported that other files than the pods' use
// the space, and one such text. Equal texts are one Event with a count.
func eventsOnTheNode(ctx context.Context, s *scene) (message string, count int32) {
	list, err := live.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error(), 0
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Reason == "EvictionHeld" && e.InvolvedObject.Kind == "Node" && strings.Contains(e.Message, "InsufficientReclaim") &&
			strings.Contains(e.Message, "Other ") {
			message, count = e.Message, count+e.Count
		}
	}
	return message, count
}

// The same as TestDiskVictimIsThePodThatFilledIt, for what else can fill a disk.
func TestDiskVictimOfInodesLogsAndLayers(t *testing.T) {
	amount := fmt.Sprintf("%dMi", greedyMiB)
	for _, test := range []struct {
		name, signal string
		untilMet     int64
		flags        []string
	}{
		{"inodes", node.DiskInodes, untilMetFiles, []string{"--write=/data/f", fmt.Sprintf("--files=%d", greedyFiles)}},
		{"log", node.DiskSpace, untilMetMiB, []string{"--output-bytes=" + amount}},
		{"layer", node.DiskSpace, untilMetMiB, []string{"--grow=/fill", "--grow-bytes=" + amount}},
	} {
		t.Run(test.name, func(t *testing.T) { diskVictimIsThePodThatFilledIt(t, test.signal, test.untilMet, test.flags) })
	}
}
