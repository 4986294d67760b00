package parity

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/internal/sim"
	"github.com/evictd/evictd/pkg/pressure"
)

// The kubelet of evictd simulate does at each look what the kubelet's own manager does, on half of the nodes beside evictd.
func TestSimulatedKubelet(t *testing.T) {
	t.Parallel()
	counts := map[string]int{}
	for seed := range uint64(100) {
		s, looks, last := scenario(seed), []*sim.Look{}, time.Duration(0)
		state := &State{Seed: seed, Layout: OneFS, Thresholds: Thresholds{Transition: 5 * time.Minute}} // the kubelet's default
		s.Looks = func(l *sim.Look) {
			state.Readings = append(state.Readings, Reading{After: l.At - last, Figures: figures(&l.Before), cleaned: figures(&l.After)})
			looks, last = append(looks, l), l.At
		}
		synctest.Test(t, func(t *testing.T) {
			_, err := s.Play(t.Context().Err, []sim.Arm{sim.KubeletAlone, sim.Both}[seed%2], sim.HardPolicy(), seed, func(sim.Event) {})
			must(t, err)
		})
		state.turn = func(o *oracle) {
			if o.at > 0 {
				o.sameLook(t, looks[o.at-1], counts)
			}
			o.pods, o.stats = nil, nil
			for i := 0; o.at < len(looks) && i < len(looks[o.at].Pods); i++ {
				p := looks[o.at].Pods[i]
				o.pods, o.stats = append(o.pods, p.Pod), append(o.stats, statsapi.PodStats{
					PodRef: statsapi.PodReference{UID: string(p.Pod.UID)}, Memory: &statsapi.MemoryStats{WorkingSetBytes: unsigned(p.Memory)},
					Containers: []statsapi.ContainerStats{{Rootfs: (&Disk{Bytes: p.Disk}).stats()}},
				})
			}
		}
		thresholds, err := eviction.ParseThresholdConfig([]string{"pods"}, eviction.DefaultEvictionHard, nil, nil, nil)
		must(t, err)
		kubelet(t.Context(), state, thresholds, nil)
	}
	if t.Log(counts); len(counts) < 13 {
		t.Error("not all was compared")
	}
}

// sameLook compares the cycle that is over with the look, and counts what there was to compare. No two pods are equal.
func (o *oracle) sameLook(t *testing.T, look *sim.Look, counts map[string]int) {
	t.Helper()
	cycle := &o.cycles[o.at-1]
	ours := fmt.Sprintf("removes images: %t, grace %v", look.Removes, look.Grace)
	theirs := fmt.Sprintf("removes images: %t, grace %v", cycle.Images, time.Duration(cycle.Grace)*time.Second)
	did := cycle.Reclaims + " " + theirs
	for i, p := range look.Pods {
		evicted, refused := p.Pod.Name == cycle.Victim, !o.admits.Admit(t.Context(), &lifecycle.PodAdmitAttributes{Pod: o.pods[i]}).Admit
		ours += fmt.Sprintf("\n%s: evicted %t, refused %t", p.Pod.Name, p.Evicted, p.Refused)
		theirs += fmt.Sprintf("\n%s: evicted %t, refused %t", p.Pod.Name, evicted, refused)
		counts[fmt.Sprintf("memory pressure %t, disk pressure %t: refused %t", cycle.Memory, cycle.Disk, refused)]++
		if evicted && p.Pod.DeletionTimestamp != nil {
			did += ", terminating"
		}
	}
	if counts[did]++; ours != theirs {
		t.Errorf("seed %d, look %d: the kubelet: %s\n%s", o.state.Seed, o.at, did, cmp.Diff(theirs, ours))
	}
}

// figures are a sample's.
func figures(sample *pressure.Sample) map[string]Figure {
	all := map[string]Figure{}
	for _, signal := range pressure.Signals() {
		if o := sample.Of(signal); o.State == pressure.Known {
			all[signal.String()] = Figure{Available: o.Available, Capacity: o.Capacity}
		}
	}
	return all
}

// scenario is a node whose memory, limit of all pods and disk are near the kubelet's lines, or are not.
func scenario(seed uint64) *sim.Scenario {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x73696d))}
	seconds := func(below int) metav1.Duration {
		return metav1.Duration{Duration: time.Duration(g.IntN(below)) * time.Second}
	}
	mebis := func(from, to int64) resource.Quantity {
		return *resource.NewQuantity(max(0, from*sim.Mebi+g.Int64N((to-from)*sim.Mebi)), resource.BinarySI)
	}
	n := 1 + g.Int64N(15)
	s := &sim.Scenario{Duration: metav1.Duration{Duration: 6 * time.Minute}, Node: sim.Machine{
		Memory: mebis(8192, 8193), PodsLimit: mebis(150*n-50, 150*n+800),
		System: sim.Curve{Shape: sim.ShapeStep, From: mebis(7800-150*n, 8250-150*n), After: seconds(60)},
		Disk: &sim.Volume{
			Capacity: mebis(10240, 10241), System: sim.Curve{From: mebis(5000-150*n, 10240-150*n)},
			UnusedImages: sim.Curve{Shape: sim.ShapeStep, To: mebis(0, 2000), After: seconds(60)},
		},
	}}
	for i := range n {
		stops := seconds(30)
		s.Pods = append(s.Pods, sim.Workload{
			Name: fmt.Sprint("w", i), Controller: g.pick("ReplicaSet", "DaemonSet", "None"), Stops: &stops,
			Priority: []int32{-1, 0, 0, 100, 2000000000}[g.IntN(5)], Request: mebis(-100, 300),
			Memory: sim.Curve{From: mebis(0, 300)}, Cache: sim.Curve{From: mebis(0, 50)}, Disk: sim.Curve{From: mebis(0, 300)},
		})
	}
	return s
}
