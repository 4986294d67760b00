package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// The kubelet's times (pkg/kubelet/eviction/eviction_manager.go and pkg/kubelet/kubelet.go): how often it looks, how
// long it waits for a victim's end, the grace period of a victim of a hard threshold, and how long it then admits no
// pod without requests.
const (
	kubeletLooks      = 10 * time.Second
	kubeletAwaits     = 30 * time.Second
	kubeletGrace      = time.Second
	kubeletTransition = 5 * time.Minute
	kubeletCollects   = 5 * time.Minute // unused images, above its share of the disk
)

// kubelet is the kubelet's own eviction with its defaults: at each look one pod at most, the first of its order, with no
// budget and no grace period.
type kubelet struct {
	next     time.Time // look
	victim   *life
	since    time.Time // its end was begun
	pressure time.Time // was last seen
	collects time.Time // next
	removed  int64     // of unused images, in bytes
}

// step looks where that is due.
func (k *kubelet) step(p *play, now time.Time) {
	if k.victim != nil && now.Sub(k.since) >= min(k.victim.stops(), kubeletGrace) {
		if p.lives[k.victim.uid] == k.victim {
			k.end(p, now)
		}
		k.victim, k.next = nil, now
	}
	if k.victim != nil && now.Sub(k.since) < kubeletAwaits || now.Before(k.next) {
		return
	}
	k.next = now.Add(kubeletLooks)
	k.look(p, now)
}

// look collects images or evicts a pod, where a threshold is met.
func (k *kubelet) look(p *play, now time.Time) {
	sample, config := p.observe(now), kubeletconfig.Default()
	sample.Observations[pressure.MemoryAvailable] = p.memory(p.kubelets(), nil)
	if o := sample.Of(pressure.ImageFSAvailable); o.State == pressure.Known && !now.Before(k.collects) {
		k.collects = now.Add(kubeletCollects)
		if o.Available < config.ImageCollection.Of(o.Capacity) && k.collect(p, now) {
			return
		}
	}
	for _, t := range config.Thresholds {
		if !t.Hard || !short(&sample, t) {
			continue
		}
		k.pressure = now
		if !t.Signal.OnDisk() || !k.collect(p, now) {
			k.evict(p, &sample, t, now)
		}
		return
	}
}

// collect removes the images that no pod uses; false where there are none.
func (k *kubelet) collect(p *play, now time.Time) bool {
	unused := p.unusedImages(now)
	if unused == 0 {
		return false
	}
	k.removed += unused
	p.say("", "the kubelet removes %s of images that no pod uses", bytes(unused))
	return true
}

// evict ends the first pod of the kubelet's order, which is evictd's without its protections, over working sets.
func (k *kubelet) evict(p *play, sample *pressure.Sample, t pressure.Threshold, now time.Time) {
	resource := rank.Memory
	if t.Signal.OnDisk() {
		resource = rank.Disk
	}
	var pods []rank.Pod
	for _, uid := range slices.Sorted(maps.Keys(p.lives)) {
		l, pod := p.lives[uid], p.pods[uid]
		if pod.noCgroup || pod.leaving != nil || l.of.Priority >= rank.SystemCriticalPriority {
			continue
		}
		one := nodepods.FromAPI(pod.api).Pod
		one.Sampled, one.Usage, one.Request = true, pod.memory+pod.cache, l.of.Request.Value()
		if resource == rank.Disk {
			one.Usage, one.Request = l.of.Disk.At(now.Sub(l.created)), 0
		}
		pods = append(pods, one)
	}
	ranking := rank.Order(resource, pods, rank.Rules{DaemonSets: false})
	if len(ranking.Candidates) == 0 {
		return
	}
	k.victim, k.since = p.lives[ranking.Candidates[0].Pod.UID], now
	k.victim.by = ByKubelet
	p.ended(k.victim, ByKubelet)
	o := sample.Of(t.Signal)
	p.say(k.victim.key, "is evicted by the kubelet, with a grace period of 1 s: its %s is %s, its line %s", t.Signal, bytes(o.Available), bytes(t.Quantity.Of(o.Capacity)))
}

// end is the end of the kubelet's victim, which stays listed.
func (k *kubelet) end(p *play, now time.Time) {
	l := k.victim
	pod := p.pods[l.uid].api.DeepCopy()
	byKubelet(pod)
	p.pods[l.uid].api, p.pods[l.uid].memory, p.pods[l.uid].noCgroup = pod, 0, true
	p.gone(l, now)
}

// refuses reports whether the node admits no pod of a workload: under memory pressure one without a request
// (pkg/kubelet/eviction, Admit).
func (k *kubelet) refuses(w *Workload, now time.Time) bool {
	return !k.pressure.IsZero() && now.Sub(k.pressure) < kubeletTransition && w.Request.IsZero() && w.Limit.IsZero()
}
