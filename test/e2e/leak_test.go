//go:build e2e

package e2e

import (
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// The same with a leak that stays within its request. While much memory is left it stays,
// although the line is crossed. So do the holders, whose end would reclaim almost nothing, and
// two small pods, of which one exceeds its request and the other is nearer to it than the
// leak: the leak would use up within seconds what the end of both reclaims. When the leak
// would reach the kubelet's line before it could have ended, it is evicted, and only it.
func TestLeakWithinItsRequestGoesAtExhaustion(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	// The leak allocates 2250 MiB within its grace period and the margin of 15 s.
	const kubeletsBelow, aSecond, most = 3500, 50, 8500 // MiB; the first is below evictd's line
	const smallMiB = 110                                // not negligible beside what is missing, but two seconds of the leak
	over := s.deploy(node.Workload{Name: "over", UsesMiB: smallMiB, AsksMiB: smallMiB - 50})
	near := s.deploy(node.Workload{Name: "near", UsesMiB: smallMiB, AsksMiB: smallMiB + 20})
	leak := s.leak(most, most, aSecond) // evictd has read its usage before it grows
	calm := append(s.cacheHolders(), over, near)
	s.kubeletsLine(kubeletsMemory(s) - (leakFirstMiB+leakUntilMetMiB+kubeletsBelow)<<20)
	evicted := s.evicted()
	s.nearLine(leakFirstMiB+leakUntilMetMiB, defaultReclaim) // in force before it is crossed
	s.knowsTheKubeletsLine()
	s.takes(leak, "first")
	d := s.gone(&leak.Pod)
	if d.Signal != node.NodeMemory || d.Verb != "Acted" || d.Available > d.Line-(kubeletsBelow/10)<<20 {
		t.Errorf("the decision: %+v", d)
	}
	s.staysBesideOne(calm, evicted)
	s.kubeletHasNotActed()
}
