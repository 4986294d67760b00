package incident

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Sources report what others than evictd have done on the node: what happened in an incident is the
// difference of two readings. All must be set.
type Sources struct {
	// OOMKills returns how many processes the kernel has killed for want of memory since boot.
	OOMKills func() (int64, error)
	// Pods returns the listed pods of the node, in a slice of the caller's own. Those that the kubelet
	// has evicted stay listed until they are collected.
	Pods func() []*nodepods.Pod
	// Fault receives the error when OOMKills fails.
	Fault func(source string, err error)
}

// Before is what the kernel and the kubelet had done against a shortage when it began.
type Before struct {
	// OOMKills is how many processes the kernel had killed for want of memory since boot; negative where
	// that is not known.
	OOMKills int64 `json:"oomKills"`
	// Evicted is when the kubelet evicted the newest pod that was listed, the zero time where there was
	// none. What it evicted until then, it evicted before: a node may list thousands of such pods.
	Evicted time.Time `json:"evicted,omitzero"`
}

// During is what they did in the incident.
type During struct {
	// OOMKills is how many processes the kernel killed for want of memory; negative where that is not
	// known.
	OOMKills int64
	// Kubelets are the pods that the kubelet evicted, as namespace/name.
	Kubelets []string
}

// before returns what others had done until now.
func (s *Sources) before() Before {
	before := Before{OOMKills: s.oomKills()}
	for _, pod := range s.evicted() {
		if pod.KubeletEvictedAt.After(before.Evicted) {
			before.Evicted = pod.KubeletEvictedAt
		}
	}
	return before
}

// during returns what others did since.
func (s *Sources) during(before *Before) During {
	during := During{OOMKills: -1}
	if now := s.oomKills(); now >= 0 && before.OOMKills >= 0 {
		during.OOMKills = max(0, now-before.OOMKills)
	}
	for _, pod := range s.evicted() {
		if before.Evicted.IsZero() || pod.KubeletEvictedAt.After(before.Evicted) {
			during.Kubelets = append(during.Kubelets, pod.Key())
		}
	}
	slices.Sort(during.Kubelets)
	return during
}

// oomKills returns how many processes the kernel has killed since boot; negative where that is
// not known.
func (s *Sources) oomKills() int64 {
	kills, err := s.OOMKills()
	if err != nil {
		s.Fault(string(pressure.ProcSource), err)
		return -1
	}
	return kills
}

func (s *Sources) evicted() []*nodepods.Pod {
	return slices.DeleteFunc(s.Pods(), func(pod *nodepods.Pod) bool { return pod.KubeletEvictedAt.IsZero() })
}
