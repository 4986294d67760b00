package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/pkg/rank"
)

// crashLoopForgets is how long a container runs until the kubelet forgets its restarts.
const crashLoopForgets = 10 * time.Minute

// kernel kills containers above their limits and, where the node or all pods together have no memory left, the one
// with the highest OOM score (oom_badness of mm/oom_kill.c; the scores of pkg/kubelet/qos).
func (p *play) kernel(now time.Time) {
	for _, uid := range slices.Sorted(maps.Keys(p.lives)) {
		l := p.lives[uid]
		if limit := l.of.Limit.Value(); limit > 0 && p.pods[uid].memory > limit {
			p.kill(l, now, "its memory limit of "+l.of.Limit.String())
		}
	}
	for all := p.scenario.Node.PodsLimit.Value(); all > 0 && p.held() > all; {
		l := p.worst(all)
		if l == nil {
			break
		}
		p.kill(l, now, "the memory limit of all pods")
	}
	for p.host+p.held() > p.capacity {
		l := p.worst(p.capacity)
		if l == nil {
			break
		}
		p.kill(l, now, "no memory left on the node")
	}
}

// worst returns the pod with the highest OOM score of those that share so much; nil where none has memory.
func (p *play) worst(total int64) (worst *life) {
	var highest float64
	for _, uid := range slices.Sorted(maps.Keys(p.lives)) {
		l, pod := p.lives[uid], p.pods[uid]
		if pod.memory == 0 {
			continue
		}
		request := float64(l.of.request()) / float64(p.capacity)
		adjusted := max(3, min(999, 1000-1000*request)) // Burstable
		switch {
		case l.of.Priority > rank.SystemCriticalPriority: // system-node-critical
			adjusted = -997
		case request == 0:
			adjusted = 1000
		}
		if score := 1000*float64(pod.memory)/float64(total) + adjusted; worst == nil || score > highest {
			worst, highest = l, score
		}
	}
	return worst
}

// kill is the kernel's: the container starts again after its back-off.
func (p *play) kill(l *life, now time.Time, why string) {
	pod := p.pods[l.uid]
	p.ended(l, ByKernel)
	p.kills++
	p.result.OOMKills++
	p.say(l.key, "is killed by the kernel at %s: %s", rank.Bytes(pod.memory), why)
	pod.memory, pod.cache = 0, 0
	if pod.leaving != nil {
		l.down = now.Add(time.Hour) // none of a terminating pod starts again
		return
	}
	if now.Sub(l.started) > crashLoopForgets {
		l.kills = 0
	}
	if l.kills > 0 {
		l.down = now.Add(min(10*time.Second<<min(l.kills-1, 5), 5*time.Minute))
	} else {
		l.down = now
	}
	l.started = l.down
	l.kills++
}
