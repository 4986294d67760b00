package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// ideal ends at once the pods that grew most, until no line is met.
func (p *play) ideal(now time.Time) {
	for range p.lives {
		sample := p.observe(now)
		at := slices.IndexFunc(p.policy.Thresholds, func(t pressure.Threshold) bool { return short(&sample, t) })
		if at < 0 {
			return
		}
		if p.policy.Thresholds[at].Signal.OnDisk() && p.kubelet.collect(p, p.unusedImages(now)) {
			continue
		}
		most := p.grown(p.policy.Thresholds[at].Signal, now)
		if most == nil {
			return
		}
		p.ended(most, ByIdeal)
		delete(p.pods, most.uid)
		p.gone(most, now)
	}
}

// grown returns the pod that has grown most since its start, by what a signal is about, of those that the policy does not
// protect; of equal ones the largest. It is nil where none holds anything.
func (p *play) grown(signal pressure.Signal, now time.Time) (most *life) {
	var highest [2]int64
	for _, uid := range slices.Sorted(maps.Keys(p.lives)) {
		l := p.lives[uid]
		holds, first := p.pods[uid].memory, l.of.Memory.At(0)
		if signal.OnDisk() {
			holds, first = l.of.Disk.At(now.Sub(l.created)), l.of.Disk.At(0)
		}
		pod := nodepods.FromAPI(p.pods[uid].api).Pod
		pod.Sampled = true
		is := [2]int64{holds - first, holds}
		if holds > 0 && p.policy.Rules.Protects(&pod) == rank.NotProtected && (most == nil || slices.Compare(is[:], highest[:]) > 0) {
			most, highest = l, is
		}
	}
	return most
}
