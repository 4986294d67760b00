package sim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// The kubelet's times (pkg/kubelet/eviction/eviction_manager.go and pkg/kubelet/kubelet.go): how often it looks, the
// grace period of a victim of a hard threshold, and how long it then admits no
// pod without requests.
const (
	kubeletLooks      = 10 * time.Second
	kubeletGrace      = time.Second
	kubeletTransition = 5 * time.Minute
	kubeletListed     = 5 * time.Minute // a victim stays so long, here
	kubeletCollects   = 5 * time.Minute // unused images, above its share of the disk
)

// kubelet is the kubelet's own eviction with its defaults: at each look one pod at most, the first of its order, with no
// budget and no grace period.
type kubelet struct {
	next     time.Time // look
	victim   *life
	since    time.Time // its end was begun
	memory   time.Time // pressure was last seen
	disk     time.Time // the same
	collects time.Time // next
	removed  int64     // of unused images, in bytes
}

// Look is one of the simulated kubelet's, which test/parity has the kubelet's own eviction manager repeat.
type Look struct {
	At            time.Duration   // since the beginning
	Before, After pressure.Sample // by the kubelet's measures, before and after it removes images
	Removes       bool            // unused images, also where there are none
	Grace         time.Duration   // the victim's; 0 without one
	Pods          []LookedAt      // that run
}

// LookedAt is a pod with its working set and its use of the disk, and whether none like it is admitted after the look.
type LookedAt struct {
	Pod              *corev1.Pod
	Memory, Disk     int64
	Evicted, Refused bool
}

// step looks where that is due.
func (k *kubelet) step(p *play, now time.Time) {
	if k.victim != nil && now.Sub(k.since) >= min(k.victim.stops(), kubeletGrace) {
		if p.lives[k.victim.uid] == k.victim {
			k.end(p, now)
		}
		k.victim, k.next = nil, now
	}
	if k.victim != nil || now.Before(k.next) {
		return
	}
	k.next = now.Add(kubeletLooks)
	k.look(p, now)
}

// sees returns the signals by the kubelet's measures.
func (*kubelet) sees(p *play, now time.Time) pressure.Sample {
	sample := p.observe(now)
	sample.Observations[pressure.MemoryAvailable] = p.memory(p.kubelets(), nil)
	if o := &sample.Observations[pressure.AllocatableMemoryAvailable]; o.State == pressure.Known {
		o.Available = o.Capacity - p.held() - p.cached()
	}
	return sample
}

// look collects images or evicts a pod, where a threshold is met.
func (k *kubelet) look(p *play, now time.Time) {
	sample, config := k.sees(p, now), kubeletconfig.Default()
	if o := sample.Of(pressure.ImageFSAvailable); o.State == pressure.Known && !now.Before(k.collects) {
		k.collects = now.Add(kubeletCollects)
		if o.Available < config.ImageCollection.Of(o.Capacity) { // down to imageGCLowThresholdPercent
			k.collect(p, min(p.unusedImages(now), o.Capacity/5-o.Available))
		}
	}
	look, acted := Look{At: p.since(), Before: k.sees(p, now)}, false
	for _, t := range config.Thresholds { // one is acted upon, and each that is met makes its condition of the node
		if sample = k.sees(p, now); !short(&sample, t) {
			continue
		}
		if !t.Signal.OnDisk() {
			k.memory = now
		} else if k.disk = now; !acted {
			look.Removes = true
			k.collect(p, p.unusedImages(now))
			sample = k.sees(p, now)
		}
		if !acted && short(&sample, t) {
			acted = true
			look.Grace = k.evict(p, &sample, t, now)
		}
	}
	if p.scenario.Looks != nil {
		k.tell(p, &look, now)
	}
}

// tell tells of a look that is over.
func (k *kubelet) tell(p *play, look *Look, now time.Time) {
	look.After = k.sees(p, now)
	for uid, l := range p.lives {
		pod := p.pods[uid]
		used, disk := pod.memory+pod.cache, l.of.Disk.At(now.Sub(l.created))
		look.Pods = append(look.Pods, LookedAt{pod.api, used, disk, l == k.victim, k.refuses(l.of, now)})
	}
	p.scenario.Looks(look)
}

// collect removes so much of images that no pod uses; false where there is none.
func (k *kubelet) collect(p *play, amount int64) bool {
	if amount <= 0 {
		return false
	}
	k.removed += amount
	p.say("", "the kubelet removes %s of images that no pod uses", rank.Bytes(amount))
	return true
}

// evict ends the first pod of the kubelet's order, which is evictd's without its protections, over working sets. It
// returns the grace period.
func (k *kubelet) evict(p *play, sample *pressure.Sample, t pressure.Threshold, now time.Time) time.Duration {
	resource := rank.Memory
	if t.Signal.OnDisk() {
		resource = rank.Disk
	}
	var pods []rank.Pod
	for _, uid := range slices.Sorted(maps.Keys(p.lives)) {
		l, pod := p.lives[uid], p.pods[uid]
		one := nodepods.FromAPI(pod.api).Pod
		one.Terminating = false // the grace period is the kubelet's then
		one.Sampled, one.Usage, one.Request = true, pod.memory+pod.cache, l.of.request()
		if resource == rank.Disk {
			one.Usage, one.Request = l.of.Disk.At(now.Sub(l.created)), 0
		}
		pods = append(pods, one)
	}
	ranking := rank.Order(resource, pods, rank.Rules{DaemonSets: false})
	if len(ranking.Candidates) == 0 {
		return 0
	}
	k.victim, k.since = p.lives[ranking.Candidates[0].Pod.UID], now
	p.ended(k.victim, ByKubelet)
	o := sample.Of(t.Signal)
	p.say(k.victim.key, "is evicted by the kubelet, with a grace period of 1 s: its %s is %s, its line %s", t.Signal, rank.Bytes(o.Available), rank.Bytes(t.Quantity.Of(o.Capacity)))
	return kubeletGrace
}

// end is the end of the kubelet's victim, which stays listed unless it was deleted.
func (k *kubelet) end(p *play, now time.Time) {
	l, victim := k.victim, p.pods[k.victim.uid]
	if victim.leaving != nil {
		delete(p.pods, l.uid)
	} else {
		pod := victim.api.DeepCopy()
		byKubelet(pod)
		victim.api, victim.memory, victim.cache, victim.noCgroup = pod, 0, 0, true
		p.After(kubeletListed, func() { delete(p.pods, l.uid) })
	}
	p.gone(l, now)
}

// refuses reports whether the node admits no pod of a workload (pkg/kubelet/eviction, Admit): under disk pressure none but
// critical ones, under memory pressure none without a request but those and a DaemonSet's, which tolerate it.
func (k *kubelet) refuses(w *Workload, now time.Time) bool {
	lasts := func(seen time.Time) bool { return !seen.IsZero() && now.Sub(seen) < kubeletTransition }
	switch {
	case w.Priority >= rank.SystemCriticalPriority:
		return false
	case lasts(k.disk):
		return true
	default:
		return lasts(k.memory) && w.request() == 0 && w.Controller != "DaemonSet"
	}
}
