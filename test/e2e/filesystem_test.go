//go:build e2e_all

package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// The host used the space: a pod wrote into a hostPath. No pod's end would reclaim it.
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
	filledElsewhere(s)
	s.must(os.RemoveAll(here))
	s.calm(node.DiskSpace)
	s.stays(&modest.Pod)
	s.stays(&into.Pod)
	s.wantVictims()
}

// filledElsewhere waits for an Event on the node, and compares a decision with what was written.
func filledElsewhere(s *scene) {
	s.Helper()
	s.until("an Event on the node says that evictions would not suffice", func(ctx context.Context) bool {
		list, err := live.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{
			FieldSelector: "reason=EvictionHeld,involvedObject.name=" + live.Name(),
		})
		return err == nil && slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return strings.Contains(e.Message, "InsufficientReclaim") && strings.Contains(e.Message, "Other ")
		})
	})
	// They are reported every 30 s.
	s.until("a decision says what uses the space", func(ctx context.Context) bool {
		decisions, err := live.Decisions(ctx)
		return err == nil && slices.ContainsFunc(decisions, func(d node.Decision) bool {
			used := func(part string) int64 { return d.Breakdown[part] >> 20 }
			pods := used("Layers") + used("Logs") + used("EmptyDirs")
			return d.Signal == node.DiskSpace && used("Other") >= greedyMiB && used("EmptyDirs") >= modestMiB && pods < modestMiB+10
		})
	})
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
