package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// oracle responds to dry runs, and records their pods.
type oracle struct {
	answer func(ctx context.Context, r evict.Request) evict.Result

	mu      sync.Mutex
	asked   []string
	atOnce  int
	highest int
	wet     bool // a request was not a dry run
}

func (o *oracle) Evict(ctx context.Context, r evict.Request) evict.Result {
	o.mu.Lock()
	o.asked = append(o.asked, r.Namespace+"/"+r.Name)
	o.atOnce++
	o.highest = max(o.highest, o.atOnce)
	o.wet = o.wet || !r.DryRun || r.UID == ""
	o.mu.Unlock()
	defer func() { o.mu.Lock(); o.atOnce--; o.mu.Unlock() }()
	return o.answer(ctx, r)
}

func allowed(context.Context, evict.Request) evict.Result {
	return evict.Result{Outcome: evict.WouldEvict}
}

// candidatesIn returns n candidates of a namespace.
func candidatesIn(namespace string, n int) []rank.Entry {
	var entries []rank.Entry
	for i := range n {
		name := fmt.Sprintf("pod-%02d", i)
		entries = append(entries, rank.Entry{Position: i + 1, Pod: &rank.Pod{Namespace: namespace, Name: name, UID: namespace + name}})
	}
	return entries
}

// Dry runs are sent only for the first candidates and the pod of --why; each names the UID,
// and only a few run at a time.
func TestBudgetsAreCheckedForTheFirstOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{answer: func(ctx context.Context, r evict.Request) evict.Result {
			time.Sleep(time.Millisecond)
			return allowed(ctx, r)
		}}
		answers, note := newInquiry(o, 10, "shop/pod-25", time.Now).ask(t.Context(), candidatesIn("shop", 30))
		if len(answers) != 11 || len(o.asked) != 11 || note != "" {
			t.Errorf("%d answers, asked about %v, note %q; want the first 10 and pod-25", len(answers), o.asked, note)
		}
		if o.wet || o.highest > askAtOnce {
			t.Errorf("wet %t, %d at once", o.wet, o.highest)
		}
	})
}

// --watch refreshes every 2 s; dry runs are sent every 10 s.
func TestBudgetsAreNotCheckedOnEveryRefresh(t *testing.T) {
	t.Parallel()
	o := &oracle{answer: allowed}
	now := time.Unix(1000, 0)
	q := newInquiry(o, 20, "", func() time.Time { return now })
	var rounds []int
	for range 11 { // 0 s to 20 s
		before := len(o.asked)
		answers, _ := q.ask(t.Context(), candidatesIn("shop", 3))
		if len(answers) != 3 {
			t.Errorf("%d answers %v after the start, want 3", len(answers), now.Sub(time.Unix(1000, 0)))
		}
		rounds = append(rounds, len(o.asked)-before)
		now = now.Add(2 * time.Second)
	}
	if diff := cmp.Diff([]int{3, 0, 0, 0, 0, 3, 0, 0, 0, 0, 3}, rounds); diff != "" {
		t.Errorf("requests at each refresh (-want +got):\n%s", diff)
	}
	if answers, _ := q.ask(t.Context(), candidatesIn("shop", 2)); len(answers) != 2 {
		t.Errorf("%d answers, want none about a pod that is a candidate no more", len(answers))
	}
}

// Without the right there is one note, and no request after the first few; results from
// namespaces with the right are shown.
func TestBudgetsWithoutTheRight(t *testing.T) {
	t.Parallel()
	o := &oracle{answer: func(ctx context.Context, r evict.Request) evict.Result {
		if r.Namespace == "shop" {
			return allowed(ctx, r)
		}
		return evict.Result{Outcome: evict.Denied, NoRight: true, Message: "forbidden"}
	}}
	answers, note := newInquiry(o, 100, "", time.Now).ask(t.Context(), append(candidatesIn("secret", 40), candidatesIn("shop", 2)...))
	if len(answers) != 2 || !strings.Contains(note, "budgets are not shown for pods in secret: the account lacks the right to create pods/eviction there") {
		t.Errorf("%d answers, note %q", len(answers), note)
	}
	if len(o.asked) > 2+askAtOnce {
		t.Errorf("asked %d times although there is no right", len(o.asked))
	}
}

// An API server that does not respond costs one bounded wait, and missing results are
// unknown.
func TestBudgetsOfAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &oracle{answer: func(ctx context.Context, _ evict.Request) evict.Result {
			<-ctx.Done()
			return evict.Result{Outcome: evict.Unconfirmed, Message: "no answer"}
		}}
		start := time.Now()
		answers, _ := newInquiry(o, 20, "", time.Now).ask(t.Context(), candidatesIn("shop", 20))
		if took := time.Since(start); took != askTimeout || len(o.asked) != askAtOnce {
			t.Errorf("took %v and %d requests, want %v and %d", took, len(o.asked), askTimeout, askAtOnce)
		}
		for _, answer := range answers {
			if answer.Outcome != evict.Unconfirmed {
				t.Errorf("%+v, want it unknown", answer)
			}
		}
	})
}

// No further request is sent to a server that throttles.
func TestBudgetsOfAServerThatThrottles(t *testing.T) {
	t.Parallel()
	o := &oracle{answer: func(context.Context, evict.Request) evict.Result { return evict.Result{Outcome: evict.Throttled} }}
	answers, _ := newInquiry(o, 50, "", time.Now).ask(t.Context(), candidatesIn("shop", 50))
	if len(o.asked) > askAtOnce || len(answers) != 50 {
		t.Errorf("%d requests and %d answers, want at most %d and 50", len(o.asked), len(answers), askAtOnce)
	}
}

func TestBudgetInWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		answer *rankBudget
		want   string
	}{
		{nil, "-"},
		{&rankBudget{Outcome: "WouldEvict"}, "allowed"},
		{&rankBudget{Outcome: "BlockedByBudget", Budget: "web"}, "blocked by web"},
		{&rankBudget{Outcome: "BlockedByBudget"}, "blocked"},
		{&rankBudget{Outcome: "BudgetPending", Budget: "web"}, "pending web"},
		{&rankBudget{Outcome: "BudgetPending"}, "pending"},
		{&rankBudget{Outcome: "Denied", Message: "a policy"}, "denied: a policy"},
		{&rankBudget{Outcome: "Denied"}, "denied"},
		{&rankBudget{Outcome: "Misconfigured", Message: "x"}, "several budgets"},
		{&rankBudget{Outcome: "Gone"}, "gone"},
		{&rankBudget{Outcome: "Throttled"}, "unknown"},
		{&rankBudget{Outcome: "Unknown"}, "unknown"},
	} {
		if got := budgetInWords(test.answer); got != test.want {
			t.Errorf("%+v: %q, want %q", test.answer, got, test.want)
		}
	}
}
