package main

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// What ended a pod.
const (
	byEvictd  = "evictd"
	byKubelet = "kubelet"
	byKernel  = "kernel"
	byOther   = "other" // itself, its controller, or unknown
)

// causes are all of them.
func causes() []string { return []string{byEvictd, byKubelet, byKernel, byOther} }

// cause is a sign of what ends a pod, and when it was first seen.
type cause struct {
	by string
	at time.Time
}

// life is what the watch told of one pod.
type life struct {
	app, name string
	request   int64 // of memory, in bytes
	preStop   bool
	started   time.Time // of the first container; zero before it runs
	finished  time.Time // the end of the last container; zero while it runs
	causes    []cause   // each at most once, in the order of their signs
	killed    map[string]bool
	exit      *int32 // the exit code of the last container that ended; nil when unknown
	leaving   bool   // it is terminating
	gone      bool   // the API server has removed it
}

// see takes what the watch told at that moment.
func (l *life) see(pod *corev1.Pod, at time.Time) {
	l.leaving = pod.DeletionTimestamp != nil
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Reason {
		case "EvictionByEvictionAPI":
			l.add(byEvictd, at)
		case corev1.PodReasonTerminationByKubelet:
			l.add(byKubelet, at)
		}
	}
	if evictedByKubelet(&pod.Status) {
		l.add(byKubelet, at)
	}
	for i := range pod.Status.ContainerStatuses {
		l.seeContainer(&pod.Status.ContainerStatuses[i], at)
	}
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if over && !l.started.IsZero() && l.finished.IsZero() {
		l.finished = at // the kubelet does not know of the container's end any more
	}
}

// evictedByKubelet reports whether the status says so. The kubelet gives a pod that it does not
// admit under pressure the same reason.
func evictedByKubelet(status *corev1.PodStatus) bool {
	return status.Reason == "Evicted" && !strings.HasPrefix(status.Message, "Pod was rejected")
}

func (l *life) seeContainer(c *corev1.ContainerStatus, at time.Time) {
	if c.State.Running != nil {
		if l.started.IsZero() {
			l.started = c.State.Running.StartedAt.Time
		}
		l.finished = time.Time{}
	}
	for _, state := range []*corev1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
		if state == nil {
			continue
		}
		if l.started.IsZero() {
			l.started = state.StartedAt.Time
		}
		if c.State.Running == nil {
			l.finished = state.FinishedAt.Time
		}
		code := state.ExitCode
		l.exit = &code
		if state.Reason == "OOMKilled" && !l.killed[state.ContainerID] {
			l.killed[state.ContainerID] = true
			l.add(byKernel, at)
		}
	}
}

func (l *life) add(by string, at time.Time) {
	if !slices.ContainsFunc(l.causes, func(c cause) bool { return c.by == by }) {
		l.causes = append(l.causes, cause{by, at})
	}
}

// ends reports whether the pod, or a container of it, has ended or is about to, by what and
// since when: the first cause.
func (l *life) ends(now time.Time) (cause, bool) {
	if len(l.causes) > 0 {
		return l.causes[0], true
	}
	if l.gone || l.leaving || (!l.started.IsZero() && !l.finished.IsZero()) {
		at := l.finished
		if at.IsZero() {
			at = now
		}
		return cause{byOther, at}, true
	}
	return cause{}, false
}

// End is one pod that has ended.
type End struct {
	App string `json:"app"`
	Pod string `json:"pod"`
	// By is evictd, kubelet, kernel or other; Also are later causes.
	By   string   `json:"by"`
	Also []string `json:"also,omitempty"`
	// At is in seconds since the incident began.
	At float64 `json:"at"`
	// Ran is how long it had run, in seconds; Request its memory request, in bytes. Their
	// product is the work that is lost.
	Ran     float64 `json:"ran"`
	Request int64   `json:"request"`
	// Graceful says that its preStop hook, if it has one, was finished, that it handled SIGTERM
	// to its end, and that its exit code was 0.
	Graceful bool `json:"graceful"`
	// PreStop is "finished", "cut", "not run", or "" where it has none; Term says that SIGTERM
	// came; Exit is the exit code, nil when it is not known.
	PreStop string `json:"preStop,omitempty"`
	Term    bool   `json:"term"`
	Exit    *int32 `json:"exit,omitempty"`
}

// endOf describes the end of a pod. The journal is what the pod itself wrote. A pod that ended before the
// incident began is left over from the run before.
func endOf(l *life, journal string, began, now time.Time) (End, bool) {
	first, ended := l.ends(now)
	if !ended || first.at.Before(began) {
		return End{}, false
	}
	e := End{App: l.app, Pod: l.name, By: first.by, At: first.at.Sub(began).Seconds(), Request: l.request, Exit: l.exit}
	for _, c := range l.causes[min(1, len(l.causes)):] {
		e.Also = append(e.Also, c.by)
	}
	until := l.finished
	if until.IsZero() {
		until = now
	}
	if !l.started.IsZero() {
		e.Ran = max(0, until.Sub(l.started).Seconds())
	}
	e.read(l, journal)
	return e, true
}

// read fills in what the pod's journal says of its grace.
func (e *End) read(l *life, journal string) {
	said := func(word string) bool { return strings.Contains(journal, " "+word+"\n") }
	e.Term = said("term")
	switch {
	case !l.preStop:
	case said("prestop-end"):
		e.PreStop = preStopFinished
	case said("prestop-start"):
		e.PreStop = "cut"
	default:
		e.PreStop = "not run"
	}
	// A pod that the API server removes may go before its last status is seen. What it wrote
	// last before it exits with 0 is then the only witness.
	clean := l.exit == nil || *l.exit == 0
	hooked := !l.preStop || e.PreStop == preStopFinished
	e.Graceful = e.Term && said("exit") && clean && hooked && len(l.killed) == 0
}

const preStopFinished = "finished"

// tally is what some causes have ended: how many pods, how many of them beyond the smallest set, how
// many innocents, and how many that had their grace.
type tally struct{ ended, beyond, innocent, graceful int }

// count counts what these causes have ended. Beyond the smallest set are the pods of an app that end after
// as many as the set has of it, whatever has ended those.
func count(ends []End, smallest map[string]int, innocents []string, causes ...string) tally {
	var t tally
	before := map[string]int{}
	for i := range ends {
		e := &ends[i]
		before[e.App]++
		if !slices.Contains(causes, e.By) {
			continue
		}
		t.ended++
		if wanted := smallest[e.App]; wanted != Any && before[e.App] > wanted {
			t.beyond++
		}
		if slices.Contains(innocents, e.App) {
			t.innocent++
		}
		if e.Graceful {
			t.graceful++
		}
	}
	return t
}

// workLost is the container-seconds times the memory request of what has ended, in GiB·s. Pods
// that are in the smallest set count, too: their work is lost, whatever ended them.
func workLost(ends []End) float64 {
	sum := 0.0
	for i := range ends {
		sum += ends[i].Ran * float64(ends[i].Request) / (1 << 30)
	}
	return sum
}

// violation follows one budget.
type violation struct {
	short bool
	count int
}

// see takes the disruption controller's count. A budget is violated whenever the number of
// healthy pods falls below what it wants; it had to be met before.
func (v *violation) see(healthy, wanted int32) {
	now := healthy < wanted
	if now && !v.short {
		v.count++
	}
	v.short = now
}

// longestGap is the longest time between two beats, and between the last beat and the end.
func longestGap(beats []time.Time, from, to time.Time) time.Duration {
	longest, last := time.Duration(0), from
	for _, b := range beats {
		if b.Before(from) || b.After(to) {
			continue
		}
		longest, last = max(longest, b.Sub(last)), b
	}
	return max(longest, to.Sub(last))
}
