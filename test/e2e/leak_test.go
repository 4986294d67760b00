//go:build e2e

package e2e

import (
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// The same with a leak that stays within its request. While much memory is left it stays,
// although the line is crossed, and so do the holders, whose end would reclaim almost
// nothing. When the leak would reach the kubelet's line before it could have ended, it is
// evicted.
func TestLeakWithinItsRequestGoesAtExhaustion(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	// The leak allocates 2250 MiB within its grace period and the margin of 15 s.
	const kubeletsBelow, aSecond, most = 3500, 50, 8500 // MiB; the first is below evictd's line
	calm, leak := s.cacheHolders(), s.leak(most, most, aSecond)
	s.kubeletsLine(kubeletsMemory(s) - (leakFirstMiB+leakUntilMetMiB+kubeletsBelow)<<20)
	evicted := s.evicted()
	s.takes(leak, "first")
	s.nearLine(leakUntilMetMiB, defaultReclaim)
	s.knowsTheKubeletsLine()
	d := s.gone(&leak.Pod)
	if d.Signal != node.NodeMemory || d.Verb != "Acted" || d.Available > d.Line-(kubeletsBelow/10)<<20 {
		t.Errorf("the decision: %+v", d)
	}
	s.staysBesideOne(calm, evicted)
	s.kubeletHasNotActed()
}
