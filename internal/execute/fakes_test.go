package execute

import (
	"cmp"
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// fake is the API server and what the executor calls, with a journal of the calls.
type fake struct {
	mu       sync.Mutex
	calls    []string
	answers  map[string]evict.Result  // by the pod's name; the zero value accepts
	looks    map[string]evict.Outcome // by the pod's name; Unconfirmed where it is missing
	unread   error                    // why pods cannot be read; nil when they can
	budgets  map[string]evict.Budget  // by name
	unlisted string                   // the pod that the watch does not list
}

func (f *fake) options() Options {
	return Options{
		Evictor: f, Listed: func(uid string) bool { return uid != f.unlisted }, Now: time.Now,
		BeforeSend: func(r *decide.InDoubt) { f.call("save " + r.Attempt.Entry.Pod.Name) },
		Intent:     func(_ *decide.Decision, a *decide.Attempt) { f.call("intent " + a.Entry.Pod.Name) },
		Held:       func(uid string) (usage.Detail, error) { f.call("held " + uid); return usage.Detail{"slab": 7}, nil },
	}
}

func (f *fake) call(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, what)
}

func (f *fake) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string{}, f.calls...)
}

func (f *fake) Evict(_ context.Context, r evict.Request) evict.Result {
	what := map[bool]string{false: "evict ", true: "delete "}[r.Delete]
	f.call(what + r.Name)
	sent := time.Now()
	result := f.answers[r.Name]
	switch {
	case r.Delete:
		result = evict.Result{Outcome: evict.Deleted}
	case result.Outcome == "":
		result.Outcome = evict.Evicted
	}
	result.Sent = sent
	return result
}

func (f *fake) Look(_ context.Context, r evict.Request) (evict.Outcome, error) {
	f.call("look " + r.Name)
	return cmp.Or(f.looks[r.Name], evict.Unconfirmed), f.unread
}

func (f *fake) Budget(_ context.Context, _, name string) (evict.Budget, error) {
	f.call("budget " + name)
	return f.budgets[name], nil
}

// hashOf is the hash of the labels of pods with that label alone.
func hashOf(app string) uint64 { return maphash.String(seed, app) }

var seed = maphash.MakeSeed()

// pod is a pod of a Deployment, and a candidate.
func pod(name string) decide.Candidate {
	return decide.Candidate{Attempt: decide.Attempt{Entry: rank.Entry{Pod: &rank.Pod{
		Namespace: "shop", Name: name, UID: name, Ready: true, Owner: "ReplicaSet/" + name, GraceSeconds: 30,
		LabelsHash: hashOf(name),
	}}}}
}
