package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// A pod whose cgroup cannot be read is no candidate, so that its neighbours would be
// evicted in its place: also when it is the one that takes the node's memory, and the read
// failed because the node has none left. So:
//
//   - A cgroup that is not there is no failure: the pod has ended, or has not begun.
//   - A reading that is less than bridgedFor old stands in. Calm nodes' pods are read that
//     often.
//   - Without one the decision waits, unreadWait in all for one incident. A pod whose read
//     fails for longer, and one that fails later, concern that pod alone: a tenant that
//     makes and deletes pods must not be able to stop the evictions.
//   - A directory of pods that cannot be listed is a failure of each pod of which nothing was
//     read and whose cgroup is not known to be missing.

const (
	// bridgedFor is how old a pod's last reading may be when it stands in for one that failed.
	bridgedFor = rehearseEvery
	// unreadWait is how long decisions about one incident wait in all for pods that could not
	// be read.
	unreadWait = time.Second
)

// lastRead are the pods' last readings, by the UIDs of their cgroups.
type lastRead map[string]datedPod

type datedPod struct {
	pod usage.Pod
	at  time.Time
}

// remember keeps what was read, and forgets what is too old to stand in.
func (l lastRead) remember(read []usage.Pod, now time.Time) {
	for i := range read {
		l[read[i].UID] = datedPod{pod: read[i], at: now}
	}
	maps.DeleteFunc(l, func(_ string, r datedPod) bool { return now.Sub(r.at) >= bridgedFor })
}

// bridge appends the last readings of the pods that could not be read, and returns the UIDs of
// the cgroups that have none.
func (a *Agent) bridge(read []usage.Pod, fault error, pods []*nodepods.Pod, now time.Time) (bridged []usage.Pod, missing []string) {
	var unread *usage.UnreadError
	if !errors.As(fault, &unread) {
		return read, nil
	}
	for _, uid := range a.failed(read, unread, pods) {
		if last, known := a.lastRead[uid]; known && now.Sub(last.at) < bridgedFor {
			read = append(read, last.pod)
		} else {
			missing = append(missing, uid)
		}
	}
	return read, missing
}

// failed returns the UIDs of the cgroups that are there, for all that is known, and could not
// be read.
func (a *Agent) failed(read []usage.Pod, unread *usage.UnreadError, pods []*nodepods.Pod) []string {
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
		there, err := a.options.Cgroups.Present(uid)
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

// unreadWaitsOf returns that of a pressure's incident: all signals of memory share one.
func (a *Agent) unreadWaitsOf(p *pressure.Pressure) *unreadWaits {
	signal := pressure.MemoryAvailable
	if p.Threshold.Signal.Kind() == pressure.PIDKind {
		signal = pressure.PIDAvailable
	}
	w := &a.unreadWaits[signal]
	if now := a.incidentOf(p); w.incident != now {
		*w = unreadWaits{incident: now}
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
func (a *Agent) awaitUnread(p *pressure.Pressure, pods []*nodepods.Pod, missing []string) (decide.Hold, string) {
	w := a.unreadWaitsOf(p)
	w.spent = w.waited(p.SampleTime)
	w.from = time.Time{}
	if len(missing) == 0 || w.spent >= unreadWait {
		return decide.HoldNone, ""
	}
	w.from = p.SampleTime
	return decide.HoldUsageUnknown, fmt.Sprintf("%d pods could not be read: %s; waiting %v at most",
		len(missing), namesOf(missing, pods), unreadWait-w.spent)
}

// namesOf names the pods of some cgroups, a few of them at most.
func namesOf(uids []string, pods []*nodepods.Pod) string {
	const named = 3
	var names []string
	for _, uid := range uids[:min(named, len(uids))] {
		names = append(names, nameOf(uid, pods))
	}
	if len(uids) > named {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
