package incident

import (
	"slices"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
)

// Sources report what others than evictd have done on the node: what happened in an incident is the
// difference of two readings. The zero value knows nothing.
type Sources struct {
	// OOMKills returns how many processes the kernel has killed for want of memory since boot;
	// nil where that cannot be read.
	OOMKills func() (int64, error)
	// Pods returns the listed pods of the node, in a slice of the caller's own. Those that the kubelet
	// has evicted stay listed until they are collected.
	Pods func() []*nodepods.Pod
	// Fault receives the error when OOMKills fails; it must be set if OOMKills is.
	Fault func(source string, err error)
}

// before returns what others had done until now.
func (s *Sources) before() Others {
	others, pods := Others{OOMKills: s.oomKills()}, s.evicted()
	if more := len(pods) - KubeletsKept; more > 0 {
		slices.SortFunc(pods, func(a, b *nodepods.Pod) int { return a.KubeletEvictedAt.Compare(b.KubeletEvictedAt) })
		others.Unnamed, pods = pods[more-1].KubeletEvictedAt, pods[more:]
	}
	for i := range pods {
		others.Kubelets = append(others.Kubelets, pods[i].UID)
	}
	return others
}

// during returns what others did since.
func (s *Sources) during(before *Others) Others {
	others := Others{OOMKills: -1}
	if now := s.oomKills(); now >= 0 && before.OOMKills >= 0 {
		others.OOMKills = max(0, now-before.OOMKills)
	}
	for _, pod := range s.evicted() {
		unnamed := !before.Unnamed.IsZero() && !pod.KubeletEvictedAt.After(before.Unnamed)
		if !unnamed && !slices.Contains(before.Kubelets, pod.UID) {
			others.Kubelets = append(others.Kubelets, pod.Key())
		}
	}
	slices.Sort(others.Kubelets)
	return others
}

// oomKills returns how many processes the kernel has killed since boot; negative where that is
// not known.
func (s *Sources) oomKills() int64 {
	if s.OOMKills == nil {
		return -1
	}
	kills, err := s.OOMKills()
	if err != nil {
		s.Fault(string(pressure.ProcSource), err)
		return -1
	}
	return kills
}

func (s *Sources) evicted() []*nodepods.Pod {
	if s.Pods == nil {
		return nil
	}
	return slices.DeleteFunc(s.Pods(), func(pod *nodepods.Pod) bool { return !pod.KubeletEvicted })
}
