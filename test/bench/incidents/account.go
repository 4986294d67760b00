package main

import (
	"fmt"
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
	note      func(string) // writes into the timeline what is new
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
	ran := l.finished.IsZero()
	l.seeConditions(pod, at)
	for i := range pod.Status.ContainerStatuses {
		l.seeContainer(&pod.Status.ContainerStatuses[i], at)
	}
	over := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	if over && !l.started.IsZero() && l.finished.IsZero() {
		l.finished = at // the kubelet does not know of the container's end any more
	}
	if ran && !l.finished.IsZero() && l.exit != nil {
		l.note(fmt.Sprintf("%s has ended, exit code %d", l.app, *l.exit))
	}
	if pod.DeletionTimestamp != nil && !l.leaving && len(l.causes) == 0 {
		l.note(l.app + " is deleted")
	}
	l.leaving = pod.DeletionTimestamp != nil
}

// seeConditions takes who evicts it. The kubelet gives a pod that it does not admit under pressure the same reason as one
// that it evicts.
func (l *life) seeConditions(pod *corev1.Pod, at time.Time) {
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
	if pod.Status.Reason == "Evicted" && !strings.HasPrefix(pod.Status.Message, "Pod was rejected") {
		l.add(byKubelet, at)
	}
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
		l.exit = new(state.ExitCode)
		if state.Reason == "OOMKilled" && !l.killed[state.ContainerID] {
			l.killed[state.ContainerID] = true
			if !l.add(byKernel, at) {
				l.note("the kernel ends (OOM) " + l.app + " again")
			}
		}
	}
}

// add adds a sign, and reports whether it is new.
func (l *life) add(by string, at time.Time) bool {
	if slices.ContainsFunc(l.causes, func(c cause) bool { return c.by == by }) {
		return false
	}
	l.causes = append(l.causes, cause{by, at})
	l.note(map[string]string{byEvictd: "evictd evicts ", byKubelet: "the kubelet evicts ", byKernel: "the kernel ends (OOM) "}[by] + l.app)
	return true
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
	// By is evictd, kubelet, kernel or other.
	By string `json:"by"`
	// At is in seconds since the incident began.
	At float64 `json:"at"`
	// Graceful says that its preStop hook, if it has one, was finished, that it handled SIGTERM
	// to its end, and that its exit code was 0.
	Graceful bool `json:"graceful"`
}

// endOf describes the end of a pod. The journal is what the pod itself wrote. A pod that ended before the
// incident began is left over from the run before.
func endOf(l *life, journal string, began, now time.Time) (End, bool) {
	first, ended := l.ends(now)
	if !ended || first.at.Before(began) {
		return End{}, false
	}
	said := func(word string) bool { return strings.Contains(journal, " "+word+"\n") }
	// A pod that the API server removes may go before its last status is seen. What it wrote
	// last before it exits with 0 is then the only witness.
	clean := (l.exit == nil || *l.exit == 0) && len(l.killed) == 0
	hooked := !l.preStop || said("prestop-end")
	return End{
		App: l.app, Pod: l.name, By: first.by, At: first.at.Sub(began).Seconds(), Graceful: said("term") && said("exit") && clean && hooked,
	}, true
}

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
