package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/kubernetes"
)

// Moment is one line of a run's timeline.
type Moment struct {
	// At is in seconds since the incident began.
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// observer follows what the API server tells of the pods and budgets of one run.
type observer struct {
	mu      sync.Mutex
	began   time.Time // zero before the incident begins
	lives   map[string]*life
	budgets map[string]*violation
	moments []Moment
}

// observe starts to follow a namespace until ctx is done, and returns when all that is there has been seen.
func observe(ctx context.Context, client kubernetes.Interface, namespace string) (*observer, error) {
	o := &observer{lives: map[string]*life{}, budgets: map[string]*violation{}}
	pods, budgets := newFollowed(o.pod), newFollowed(func(object any, _ bool) { o.budget(object) })
	follow(ctx, client.CoreV1().RESTClient(), "pods", namespace, &corev1.Pod{}, pods)
	follow(ctx, client.PolicyV1().RESTClient(), "poddisruptionbudgets", namespace, &policyv1.PodDisruptionBudget{}, budgets)
	for _, each := range []*followed{pods, budgets} {
		select {
		case <-each.listed:
		case <-ctx.Done():
			return nil, fmt.Errorf("following the pods and budgets: %w", context.Cause(ctx))
		}
	}
	return o, nil
}

// begin says that what comes now belongs to the incident.
func (o *observer) begin(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = at
	for _, v := range o.budgets {
		v.count = 0
	}
}

// note adds a line to the timeline.
func (o *observer) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.noteAt(time.Now(), what)
}

func (o *observer) noteAt(at time.Time, what string) {
	if !o.began.IsZero() {
		o.moments = append(o.moments, Moment{at.Sub(o.began).Seconds(), what})
	}
}

func (o *observer) pod(object any, removed bool) {
	pod, is := object.(*corev1.Pod)
	if !is {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	l, known := o.lives[string(pod.UID)]
	if !known {
		l = newLife(pod)
		o.lives[string(pod.UID)] = l
		if !o.began.IsZero() {
			o.noteAt(now, l.app+": a new pod")
		}
	}
	before := *l
	killed := len(l.killed) // the map is not copied
	l.see(pod, now)
	o.tell(&before, l, len(l.killed) > killed, now)
	l.gone = l.gone || removed
}

// tell writes into the timeline what is new about a pod.
func (o *observer) tell(before, l *life, killed bool, now time.Time) {
	fresh := l.causes[len(before.causes):]
	for _, c := range fresh {
		o.noteAt(now, map[string]string{
			byEvictd: "evictd evicts ", byKubelet: "the kubelet evicts ", byKernel: "the kernel ends (OOM) ",
		}[c.by]+l.app)
	}
	if killed && len(fresh) == 0 {
		o.noteAt(now, "the kernel ends (OOM) "+l.app+" again")
	}
	if l.leaving && !before.leaving && len(l.causes) == 0 {
		o.noteAt(now, l.app+" is deleted")
	}
	if before.finished.IsZero() && !l.finished.IsZero() && l.exit != nil {
		o.noteAt(now, fmt.Sprintf("%s has ended, exit code %d", l.app, *l.exit))
	}
}

func newLife(pod *corev1.Pod) *life {
	l := &life{app: pod.Labels["app"], name: pod.Name, killed: map[string]bool{}}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		l.request += c.Resources.Requests.Memory().Value()
		l.preStop = l.preStop || (c.Lifecycle != nil && c.Lifecycle.PreStop != nil)
	}
	return l
}

func (o *observer) budget(object any) {
	b, is := object.(*policyv1.PodDisruptionBudget)
	if !is || b.Status.ObservedGeneration != b.Generation {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	v, known := o.budgets[b.Name]
	if !known {
		v = &violation{short: b.Status.CurrentHealthy < b.Status.DesiredHealthy}
		o.budgets[b.Name] = v
	}
	before := v.count
	v.see(b.Status.CurrentHealthy, b.Status.DesiredHealthy)
	if v.count > before {
		o.noteAt(time.Now(), fmt.Sprintf("the budget of %s is violated: %d healthy, %d wanted", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy))
	}
}

// state is what a run waits for.
type state struct {
	ended, leaving int       // pods that have ended or are about to, and of these, that still leave
	last           time.Time // the last sign of an end
}

func (o *observer) state() state {
	o.mu.Lock()
	defer o.mu.Unlock()
	var s state
	now := time.Now()
	for _, l := range o.lives {
		c, ended := l.ends(now)
		if !ended {
			continue
		}
		s.ended++
		if !l.gone && (l.leaving || slices.ContainsFunc(l.causes, func(c cause) bool { return c.by != byKernel })) && l.finished.IsZero() {
			s.leaving++
		}
		for _, at := range []time.Time{c.at, l.finished} {
			if at.After(s.last) {
				s.last = at
			}
		}
	}
	return s
}

// told returns what was seen: the ends, the budgets violated, and the timeline. The directory
// has the pods' journals.
func (o *observer) told(journals string) (ends []End, violated int, moments []Moment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	for _, l := range o.lives {
		text, _ := os.ReadFile(filepath.Join(journals, l.name)) //nolint:gosec // the run's own folder; a pod that never ran has none
		e, ended := endOf(l, string(text), o.began, now)
		if !ended {
			continue
		}
		ends = append(ends, e)
		for range len(l.killed) - 1 { // the containers that ended after the first
			if e.By == byKernel {
				ends = append(ends, End{App: e.App, Pod: e.Pod, By: byKernel, At: e.At})
			}
		}
	}
	slices.SortFunc(ends, func(a, b End) int {
		return strings.Compare(fmt.Sprintf("%09.3f%s", a.At, a.Pod), fmt.Sprintf("%09.3f%s", b.At, b.Pod))
	})
	for _, v := range o.budgets {
		violated += v.count
	}
	return ends, violated, slices.Clone(o.moments)
}
