package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/evictd/evictd/test/internal/measure"
)

// Moment is one line of a run's timeline.
type Moment struct {
	// At is in seconds since the incident began.
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// observer follows what the API server tells of the pods and budgets of one run.
type observer struct {
	mu       sync.Mutex
	began    time.Time // zero before the incident begins
	lives    map[types.UID]*life
	short    map[string]bool // whether a budget has fewer healthy pods than it wants
	violated int             // how often one fell short that was met before
	moments  []Moment
}

// observe starts to follow a namespace until ctx is done, and returns when all that is there has been seen.
func observe(ctx context.Context, client kubernetes.Interface, namespace string) (*observer, error) {
	o := &observer{lives: map[types.UID]*life{}, short: map[string]bool{}}
	listed := make(chan struct{}, 2)
	go o.follow(ctx, cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, fields.Everything()), o.pods, listed)
	go o.follow(ctx, cache.NewListWatchFromClient(client.PolicyV1().RESTClient(), "poddisruptionbudgets", namespace, fields.Everything()), o.each, listed)
	for range cap(listed) {
		select {
		case <-listed:
		case <-ctx.Done():
			return nil, fmt.Errorf("following the pods and budgets: %w", context.Cause(ctx))
		}
	}
	return o, nil
}

// follow lists the objects of a kind and watches them, again and again until ctx is done. Client-go's own informers
// wait for up to a minute, and would miss a pod that ends after the API server was away.
func (o *observer) follow(ctx context.Context, kind *cache.ListWatch, list func([]runtime.Object), listed chan<- struct{}) {
	const askAgain = 200 * time.Millisecond
	for ; ctx.Err() == nil; _ = measure.Sleep(ctx, askAgain) {
		all, err := kind.ListWithContext(ctx, metav1.ListOptions{})
		if err != nil {
			continue // the API server is away
		}
		objects, unread := meta.ExtractList(all)
		version, unknown := meta.NewAccessor().ResourceVersion(all)
		watching, err := kind.WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: version})
		if errors.Join(unread, unknown, err) != nil {
			continue
		}
		list(objects)
		select {
		case listed <- struct{}{}:
		default: // not the first time
		}
		for event := range watching.ResultChan() {
			o.see(event.Object, event.Type == watch.Deleted)
		}
	}
}

// pods takes a list of all pods. Those that are missing went while nothing was seen.
func (o *observer) pods(all []runtime.Object) {
	o.each(all)
	o.mu.Lock()
	defer o.mu.Unlock()
	there := map[types.UID]bool{}
	for _, object := range all {
		if pod, is := object.(*corev1.Pod); is {
			there[pod.UID] = true
		}
	}
	for uid, l := range o.lives {
		l.gone = l.gone || !there[uid]
	}
}

func (o *observer) each(all []runtime.Object) {
	for _, object := range all {
		o.see(object, false)
	}
}

// see takes one state of an object. What a watch tells of its own end is none.
func (o *observer) see(object runtime.Object, removed bool) {
	switch is := object.(type) {
	case *corev1.Pod:
		o.pod(is, removed)
	case *policyv1.PodDisruptionBudget:
		o.budget(is)
	}
}

// begin says that what comes now belongs to the incident.
func (o *observer) begin(at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began, o.violated = at, 0
}

// note adds a line to the timeline.
func (o *observer) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.write(what)
}

func (o *observer) write(what string) {
	if !o.began.IsZero() {
		o.moments = append(o.moments, Moment{time.Since(o.began).Seconds(), what})
	}
}

func (o *observer) pod(pod *corev1.Pod, removed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l, known := o.lives[pod.UID]
	if !known {
		l = newLife(pod, o.write)
		o.lives[pod.UID] = l
		o.write(l.app + ": a new pod")
	}
	l.see(pod, time.Now())
	l.gone = l.gone || removed
}

func newLife(pod *corev1.Pod, note func(string)) *life {
	l := &life{app: pod.Labels["app"], name: pod.Name, note: note, killed: map[string]bool{}}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		l.preStop = l.preStop || (c.Lifecycle != nil && c.Lifecycle.PreStop != nil)
	}
	return l
}

func (o *observer) budget(b *policyv1.PodDisruptionBudget) {
	if b.Status.ObservedGeneration != b.Generation {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	short := b.Status.CurrentHealthy < b.Status.DesiredHealthy
	if was, known := o.short[b.Name]; known && short && !was {
		o.violated++
		o.write(fmt.Sprintf("the budget of %s is violated: %d healthy, %d wanted", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy))
	}
	o.short[b.Name] = short
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
	return ends, o.violated, slices.Clone(o.moments)
}
