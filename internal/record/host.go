package record

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/decide"
)

// host is the collector of figures that are read when they are scraped, and missing when
// they cannot be read.
type host struct {
	memory func() (decide.Breakdown, error)
	kills  func() (int64, error)

	mu      sync.Mutex // guards all below
	counted bool
	before  int64 // kills when they were counted first

	used, killed *prometheus.Desc
}

// newHost counts the kills for the first time.
func newHost(settings *Settings) *host {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	h := &host{
		memory: settings.MemoryUsed, kills: settings.OOMKills,
		used:   desc("memory_used_bytes", "What the node's memory is used by; together the parts are all that is not free. Missing while it cannot be read.", "part"),
		killed: desc("oom_kills_total", "Processes that the kernel has killed for want of memory since evictd started, in limits of cgroups and on the whole machine. Missing while that cannot be read."),
	}
	_, _ = h.sinceStart() // an error shows as the missing series
	return h
}

// Describe sends the descriptions.
func (h *host) Describe(ch chan<- *prometheus.Desc) { ch <- h.used; ch <- h.killed }

// Collect reads and sends what is known.
func (h *host) Collect(ch chan<- prometheus.Metric) {
	if kills, known := h.sinceStart(); known {
		ch <- prometheus.MustNewConstMetric(h.killed, prometheus.CounterValue, float64(kills))
	}
	if h.memory == nil {
		return
	}
	memory, err := h.memory()
	if err != nil {
		return
	}
	for part, bytes := range memory {
		ch <- prometheus.MustNewConstMetric(h.used, prometheus.GaugeValue, float64(bytes), string(part))
	}
}

// sinceStart returns how many processes the kernel has killed since the first reading, and whether
// that is known.
func (h *host) sinceStart() (int64, bool) {
	if h.kills == nil {
		return 0, false
	}
	now, err := h.kills()
	if err != nil {
		return 0, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.counted {
		h.counted, h.before = true, now
	}
	return max(0, now-h.before), true
}

// OOMKill is what is known of processes of a pod that the kernel killed for want of memory.
type OOMKill struct {
	// Pod is the pod's namespace/name, "" when the watch does not list it; UID is the one that its
	// cgroup is named by.
	Pod, UID string
	// Container is where it was; "" where only the pod is known.
	Container string
	// Count is how many there were.
	Count int64
}

// OOMKilled writes down a kill, with the last decision that named the pod.
func (r *Recorder) OOMKilled(k *OOMKill) {
	fields := []zap.Field{zap.String(keyPod, k.Pod), zap.String(keyUID, k.UID), zap.Int64(keyOOMKills, k.Count)}
	if k.Container != "" {
		fields = append(fields, zap.String(keyContainer, k.Container))
	}
	if id, found := r.ring.lastAbout(k.UID); found {
		fields = append(fields, zap.Uint64(keyLastDecision, id))
	}
	r.logger.Warn(messageOOMKill, fields...)
}

// OOMKillsUnread notes, about once a minute, that the pods of OOM kills are not known.
func (r *Recorder) OOMKillsUnread(err error) {
	r.warnNowAndThen(messageNoOOMKills, messageNoOOMKills, err)
}
