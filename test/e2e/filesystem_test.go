//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/node"
)

// What the pods of these tests write, in MiB, and how much may be written before the
// threshold is met. The modest pod could not cover the deficit; the greedy one can.
const (
	modestMiB, greedyMiB = 20, 160
	untilMetMiB          = 110
)

// The same, in files.
const (
	modestFiles, greedyFiles = 300, 6000
	untilMetFiles            = 4000
)

// bareToo permits the eviction of pods without a controller: they are not created again, so
// their files are written only once.
const bareToo = "protect: {barePods: false}\ndisk: {stabilizationWindow: %s}"

// newDiskScene applies a threshold on the node's own filesystem. At the end it waits until
// the space is reclaimed: the kubelet removes dead containers once a minute.
func newDiskScene(t *testing.T, signal string, untilMet int64, window string) *scene {
	t.Helper()
	on(t, oneDisk)
	before, err := live.DiskAvailable(signal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := node.Until(context.Background(), 2*time.Minute, func(context.Context) bool { return spaceIsBack(signal, before) })
		if err != nil {
			t.Errorf("waiting for the space to come back: %v", err)
		}
	})
	return newSceneOf(t, signal, untilMet, false, fmt.Sprintf(bareToo, window))
}

// spaceIsBack distinguishes what the node itself writes from what a test's pods wrote.
func spaceIsBack(signal string, want int64) bool {
	available, err := live.DiskAvailable(signal)
	if signal == node.DiskSpace {
		return err == nil && available >= want-(8<<20)
	}
	return err == nil && available >= want-100
}

// writer is a pod that writes on the test's signal.
type writer struct {
	corev1.Pod

	control string
	last    string // what it logs at the end
}

// writer creates a pod with a disk emptyDir at /data, and the test's signals at /control,
// outside of the node's own filesystem.
func (s *scene) writer(name string, flags []string, change ...func(*corev1.PodSpec)) *writer {
	s.Helper()
	control := s.TempDir()
	s.must(node.Workload{
		Name: name, AsksMiB: 10,
		Flags: append([]string{"--start-file=/control/go", "--log-file=/control/lines"}, flags...),
		Change: func(spec *corev1.PodSpec) {
			node.Mount(spec, "data", "/data", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
			node.Mount(spec, "control", "/control", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: control}})
			for _, c := range change {
				c(spec)
			}
		},
	}.Bare(s.Context(), live, s.namespace))
	pod, err := live.Running(s.Context(), s.namespace, name)
	s.must(err)
	w := &writer{Pod: pod, control: control, last: " files\n"}
	if slices.ContainsFunc(flags, func(f string) bool { return strings.HasPrefix(f, "--output-bytes") }) {
		w.last = " output\n"
	}
	return w
}

// writes makes a pod write, and waits until it has, or is ending: where writing takes long,
// evictd may evict it before it has written all.
func (s *scene) writes(w *writer) {
	s.Helper()
	s.must(os.WriteFile(filepath.Join(w.control, "go"), nil, 0o600))
	s.until(w.Name+" has written", func(context.Context) bool {
		lines, err := os.ReadFile(filepath.Join(w.control, "lines"))
		return err == nil && (strings.Contains(string(lines), w.last) || strings.Contains(string(lines), " term\n"))
	})
}

func (s *scene) modest() *writer {
	s.Helper()
	w := s.writer("modest", []string{"--write=/data/keep", fmt.Sprintf("--write-bytes=%dMi", modestMiB), fmt.Sprintf("--files=%d", modestFiles)})
	s.writes(w)
	return w
}

// count returns the sum of a metric's series that have the labels, and NaN where evictd does
// not respond.
func (s *scene) count(ctx context.Context, name string, labels map[string]string) float64 {
	s.Helper()
	families, err := live.Metrics(ctx)
	if err != nil {
		s.Log(err)
		return math.NaN()
	}
	sum, _ := node.Value(families, name, labels)
	return sum
}

func (s *scene) evicted() float64 {
	s.Helper()
	return s.count(s.Context(), "evictd_evictions_total", map[string]string{"outcome": "Evicted"})
}

// held returns how often evictd has held for a signal with that reason.
func (s *scene) held(ctx context.Context, signal, hold string) float64 {
	s.Helper()
	return s.count(ctx, "evictd_holds_total", map[string]string{"signal": signal, "hold": hold})
}

func (s *scene) calm(signal string) {
	s.Helper()
	s.until("the pressure has ended", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_pressure", map[string]string{"signal": signal}) == 0
	})
}

// The host used the space: first through a pod that wrote into a hostPath, then through a
// file of its own. No pod's end would reclaim it.
func TestDiskFilledByTheHostEvictsNoPod(t *testing.T) {
	s := newDiskScene(t, node.DiskSpace, untilMetMiB, "2s")
	evicted := s.evicted()
	modest := s.modest()
	here, there, err := live.HostPath("mounted")
	s.must(err)
	t.Cleanup(func() { _ = os.RemoveAll(here) }) // removed already, unless the test failed
	kind := corev1.HostPathDirectoryOrCreate
	into := s.writer("into-the-host", []string{"--write=/host/fill", fmt.Sprintf("--write-bytes=%dMi", greedyMiB)}, func(spec *corev1.PodSpec) {
		node.Mount(spec, "host", "/host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: there, Type: &kind}})
	})
	s.writes(into)
	s.filledElsewhere(0)
	s.must(os.RemoveAll(here))
	s.calm(node.DiskSpace)

	own := s.hostsFile("own", greedyMiB)
	s.filledElsewhere(1)
	s.must(os.Remove(own))
	s.calm(node.DiskSpace)

	s.stays(&modest.Pod)
	s.stays(&into.Pod)
	if now := s.evicted(); now != evicted {
		t.Errorf("%v evictions, were %v before", now, evicted)
	}
}

// hostsFile writes a file on the node's filesystem that belongs to no pod.
func (s *scene) hostsFile(name string, mebibytes int) string {
	s.Helper()
	path, _, err := live.HostPath(name)
	s.must(err)
	s.Cleanup(func() { _ = os.Remove(path) }) // removed already, unless the test failed
	s.must(os.WriteFile(path, make([]byte, mebibytes<<20), 0o600))
	return path
}

// filledElsewhere waits for an Event on the node, beyond the existing ones, and compares the
// metric with what was written.
func (s *scene) filledElsewhere(before int32) {
	s.Helper()
	message := ""
	s.within(2*time.Minute, "an Event on the node says that evictions would not suffice", func(ctx context.Context) bool {
		var count int32
		message, count = s.eventsOnTheNode(ctx)
		return count > before
	})
	s.Log(message)
	// They are reported every 30 s.
	s.within(2*time.Minute, "the metric shows what uses the space", func(ctx context.Context) bool {
		used := func(part string) float64 {
			return s.count(ctx, "evictd_disk_used_bytes", map[string]string{"signal": node.DiskSpace, "part": part}) / (1 << 20)
		}
		pods := used("Layers") + used("Logs") + used("EmptyDirs")
		return used("Other") >= greedyMiB && used("EmptyDirs") >= modestMiB && pods < modestMiB+10
	})
}

// eventsOnTheNode returns how often evictd has reported that other files than the pods' use
// the space, and one such text. Equal texts are one Event with a count.
func (s *scene) eventsOnTheNode(ctx context.Context) (message string, count int32) {
	list, err := live.Client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error(), 0
	}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Reason == "EvictionHeld" && e.InvolvedObject.Kind == "Node" && strings.Contains(e.Message, "InsufficientReclaim") &&
			strings.Contains(e.Message, "Used otherwise") {
			message, count = e.Message, count+e.Count
		}
	}
	return message, count
}

// A cleanup reclaims the space after a while: within the stabilization window no pod is
// evicted, and without it one that could have reclaimed the space is.
func TestDeletionWithinTheStabilizationWindow(t *testing.T) {
	const window = 30 * time.Second
	s := newDiskScene(t, node.DiskSpace, greedyMiB+modestMiB+60, window.String())
	modest := s.modest()
	large := s.writer("large", []string{"--write=/data/fill", fmt.Sprintf("--write-bytes=%dMi", greedyMiB)})
	s.writes(large)
	evicted, waited := s.evicted(), s.held(t.Context(), node.DiskSpace, "StabilizationWindow")

	file := s.hostsFile("temporary", 100)
	removed := make(chan error, 1)
	time.AfterFunc(window/4, func() { removed <- os.Remove(file) })
	s.until("evictd waits for the space", func(ctx context.Context) bool {
		return s.held(ctx, node.DiskSpace, "StabilizationWindow") > waited
	})
	s.must(<-removed)
	s.calm(node.DiskSpace)
	s.stays(&large.Pod)
	s.stays(&modest.Pod)
	if now := s.evicted(); now != evicted {
		t.Errorf("%v evictions, were %v before", now, evicted)
	}

	file = s.hostsFile("temporary", 100)
	s.gone(&large.Pod)
	s.must(os.Remove(file))
	s.calm(node.DiskSpace)
	s.stays(&modest.Pod)
	if now := s.evicted(); now != evicted+1 {
		t.Errorf("%v evictions, want one more than %v", now, evicted)
	}
}

// The pod that filled the disk is evicted first and alone, whatever it filled.
func TestDiskVictimIsThePodThatFilledIt(t *testing.T) {
	amount := fmt.Sprintf("%dMi", greedyMiB)
	for _, test := range []struct {
		name, signal string
		untilMet     int64
		flags        []string
	}{
		{"emptyDir", node.DiskSpace, untilMetMiB, []string{"--write=/data/fill", "--write-bytes=" + amount}},
		{"inodes", node.DiskInodes, untilMetFiles, []string{"--write=/data/f", fmt.Sprintf("--files=%d", greedyFiles)}},
		{"log", node.DiskSpace, untilMetMiB, []string{"--output-bytes=" + amount}},
		{"layer", node.DiskSpace, untilMetMiB, []string{"--write=/fill", "--write-bytes=" + amount}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newDiskScene(t, test.signal, test.untilMet, "5s")
			evicted := s.evicted()
			modest := s.modest()
			greedy := s.writer("greedy", test.flags)
			line := s.count(t.Context(), "evictd_threshold_line_"+node.UnitOf(test.signal), map[string]string{"signal": test.signal})
			s.writes(greedy)
			d := s.gone(&greedy.Pod)
			if d.Signal != test.signal || d.Verb != "Acted" || len(d.Attempts) != 1 || d.Attempts[0].Outcome != "Evicted" {
				t.Errorf("the decision: %+v", d)
			}
			// The disk is still full until the kubelet has removed the victim's containers.
			s.within(2*time.Minute, "the victim's space has come back", func(context.Context) bool {
				available, err := live.DiskAvailable(test.signal)
				return err == nil && float64(available) >= line
			})
			s.calm(test.signal)
			s.stays(&modest.Pod)
			if now := s.evicted(); now != evicted+1 {
				t.Errorf("%v evictions, want one more than %v", now, evicted)
			}
		})
	}
}

// Both pods are in the kubelet's figures when greedy writes just past the line. Until the
// next figures greedy uses nothing, and only modest would suffice.
func TestDiskVictimThatTheKubeletHasNotMeasuredSince(t *testing.T) {
	s := newDiskScene(t, node.DiskSpace, untilMetMiB, "2s")
	evicted := s.evicted()
	modest := s.modest()
	greedy := s.writer("greedy", []string{"--write=/data/fill", fmt.Sprintf("--write-bytes=%dMi", untilMetMiB-10)})
	s.within(2*time.Minute, "the kubelet has measured both pods", func(ctx context.Context) bool {
		used := s.diskUse(ctx, node.DiskSpace)
		_, known := used[greedy.Name]
		return known && used[modest.Name] >= modestMiB<<20
	})
	// A figure from the second in which the threshold is met counts as newer than the
	// pressure, because the Summary's times are whole seconds. These are older.
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(2 * time.Second)))
	s.writes(greedy)
	if d := s.gone(&greedy.Pod); d.Verb != "Acted" || len(d.Attempts) != 1 {
		t.Errorf("the decision: %+v", d)
	}
	s.calm(node.DiskSpace)
	s.stays(&modest.Pod)
	if now := s.evicted(); now != evicted+1 {
		t.Errorf("%v evictions, want one more than %v", now, evicted)
	}
}
