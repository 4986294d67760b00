package measure

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

const (
	// A pod whose cgroup cannot be read is no candidate, so that its neighbours would go in its
	// place: what stands in for it, and how long one is waited for, is docs/adr/0018.

	// bridgedFor is how old a pod's last reading may be when it replaces one that failed.
	bridgedFor = WarmUpEvery
	// UnreadWait is how long decisions about one incident wait in all for pods that could not
	// be read.
	UnreadWait = time.Second
)

// lastRead are the pods' last readings, by the UIDs of their cgroups.
type lastRead map[string]datedPod

type datedPod struct {
	pod usage.Pod
	at  time.Time
}

// update keeps what was read, and forgets what is too old to stand in.
func (l lastRead) update(read []usage.Pod, now time.Time) {
	for i := range read {
		l[read[i].UID] = datedPod{pod: read[i], at: now}
	}
	maps.DeleteFunc(l, func(_ string, r datedPod) bool { return now.Sub(r.at) >= bridgedFor })
}

// bridge appends the last readings of the pods that could not be read, and returns the UIDs of
// the cgroups that have none.
func (m *Measurer) bridge(read []usage.Pod, fault error, pods []*nodepods.Pod, now time.Time) (bridged []usage.Pod, missing []string) {
	var unread *usage.UnreadError
	if !errors.As(fault, &unread) {
		return read, nil
	}
	for _, uid := range m.failed(read, unread, pods) {
		if last, known := m.lastRead[uid]; known && now.Sub(last.at) < bridgedFor {
			read = append(read, last.pod)
		} else {
			missing = append(missing, uid)
		}
	}
	return read, missing
}

// failed returns the UIDs of the cgroups that, as far as is known, exist and could not be read.
func (m *Measurer) failed(read []usage.Pod, unread *usage.UnreadError, pods []*nodepods.Pod) []string {
	asked := slices.Clone(unread.Pods)
	if unread.ListingFailed {
		for _, pod := range pods {
			uid := pod.CgroupUID
			wasRead := slices.ContainsFunc(read, func(p usage.Pod) bool { return p.UID == uid })
			if !wasRead && !slices.Contains(asked, uid) {
				asked = append(asked, uid)
			}
		}
	}
	return slices.DeleteFunc(asked, func(uid string) bool {
		there, err := m.options.Cgroups.Present(uid)
		return err == nil && !there
	})
}

// unreadWaits is how long decisions about an incident have waited for pods that could not be
// read. The zero value has not waited.
type unreadWaits struct {
	incident string        // its ID
	spent    time.Duration // in waits that are over
	from     time.Time     // since when a decision waits; zero when none does
}

// waitsOf returns that of a query's incident: all signals of memory share one.
func (m *Measurer) waitsOf(q *Query) *unreadWaits {
	signal := pressure.MemoryAvailable
	if q.Pressure.Threshold.Signal.Kind() == pressure.PIDKind {
		signal = pressure.PIDAvailable
	}
	w := &m.waits[signal]
	if w.incident != q.Incident {
		*w = unreadWaits{incident: q.Incident}
	}
	return w
}

// waited returns how long decisions have waited by now.
func (w *unreadWaits) waited(now time.Time) time.Duration {
	if w.from.IsZero() {
		return w.spent
	}
	return w.spent + now.Sub(w.from)
}

// awaitUnread holds a decision while pods could not be read that nothing stands in for.
func (m *Measurer) awaitUnread(q *Query, missing []string) (decide.Hold, string) {
	w, now := m.waitsOf(q), q.Pressure.SampleTime
	w.spent = w.waited(now)
	w.from = time.Time{}
	if len(missing) == 0 || w.spent >= UnreadWait {
		return decide.HoldNone, ""
	}
	w.from = now
	names := make([]string, 0, len(missing))
	for _, uid := range missing {
		names = append(names, nameOf(uid, q.Pods))
	}
	return decide.HoldUsageUnknown, fmt.Sprintf("%d pods could not be read: %s; waiting %v at most",
		len(missing), wording.Few(names), UnreadWait-w.spent)
}

// nameOf returns namespace and name of the pod whose cgroup it is, else the UID in
// the cgroup's name.
func nameOf(uid string, pods []*nodepods.Pod) string {
	for _, pod := range pods {
		if pod.CgroupUID == uid {
			return pod.Key()
		}
	}
	return uid
}
