package parity

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
)

// rankMemoryPressure is the kubelet's own function, as its eviction manager calls it
// under memory pressure once the Summary has been read: nothing else of a cycle is in
// the time that is measured.
//
//go:linkname rankMemoryPressure k8s.io/kubernetes/pkg/kubelet/eviction.rankMemoryPressure
func rankMemoryPressure(pods []*corev1.Pod, stats func(*corev1.Pod) (statsapi.PodStats, bool))

// cachedStatsFunc is what the kubelet hands to it.
//
//go:linkname cachedStatsFunc k8s.io/kubernetes/pkg/kubelet/eviction.cachedStatsFunc
func cachedStatsFunc(stats []statsapi.PodStats) func(*corev1.Pod) (statsapi.PodStats, bool)

// side holds one node's pods as each of the two ranks them.
type side struct {
	kubelet []*corev1.Pod
	stats   []statsapi.PodStats
	evictd  []*nodepods.Pod
	facts   []rank.Pod
	usage   []int64
}

// benchPods returns ordinary pods with measurements, of one to three containers.
func benchPods(tb testing.TB, n int) *side {
	tb.Helper()
	g := &generator{Rand: rand.New(rand.NewPCG(7, 8))}
	s := &side{}
	for _, p := range g.pods(n) {
		p.Kind, p.Terminating, p.Finished, p.Priority = Replica, false, false, new(int32(g.IntN(5)*100))
		s.kubelet = append(s.kubelet, p.kubelet())
		s.stats = append(s.stats, *p.stats())
		s.evictd = append(s.evictd, nodepods.FromAPI(p.api()))
		s.usage = append(s.usage, *p.Memory)
	}
	s.facts = s.gather()
	return s
}

// gather builds the facts that evictd ranks, from the pods and their usage.
func (s *side) gather() []rank.Pod {
	facts := make([]rank.Pod, 0, len(s.evictd))
	for i, pod := range s.evictd {
		f := pod.Facts(rank.Memory)
		f.Usage, f.Sampled = s.usage[i], true
		facts = append(facts, f)
	}
	return facts
}

// BenchmarkRank110 times both alternately on the same 110 pods, so that other load on the
// machine slows both. It reports medians, so that a pause in one of them has no influence.
// The kubelet computes requests while it compares, and evictd before: facts-and-order
// includes that. The metrics say by how much evictd is faster.
func BenchmarkRank110(b *testing.B) {
	s := benchPods(b, 110)
	stats := cachedStatsFunc(s.stats)
	rules := rank.Rules{DaemonSets: true, BarePods: true}
	var kubelets, orders, both []time.Duration
	for b.Loop() {
		pods := slices.Clone(s.kubelet) // the kubelet sorts in place
		kubelets = append(kubelets, timed(func() { rankMemoryPressure(pods, stats) }))
		orders = append(orders, timed(func() { rank.Order(rank.Memory, s.facts, rules) }))
		both = append(both, timed(func() { rank.Order(rank.Memory, s.gather(), rules) }))
	}
	kubelet, order, facts := median(kubelets), median(orders), median(both)
	b.ReportMetric(0, "ns/op") // the sum of the three is meaningless
	b.ReportMetric(kubelet, "µs/kubelet")
	b.ReportMetric(order, "µs/order")
	b.ReportMetric(facts, "µs/facts-and-order")
	b.ReportMetric(kubelet/order, "times-faster")
	b.ReportMetric(kubelet/facts, "times-faster-with-facts")
	if faster := kubelet / order; faster < 10 {
		b.Errorf("evictd is only %.1f times faster than the kubelet", faster)
	}
}

func timed(f func()) time.Duration {
	started := time.Now()
	f()
	return time.Since(started)
}

// median returns the middle duration, in microseconds.
func median(durations []time.Duration) float64 {
	slices.Sort(durations)
	return float64(durations[len(durations)/2]) / float64(time.Microsecond)
}
