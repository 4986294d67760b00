package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

func errPlanted() error { return errors.New("planted") }

// carry carries a plan out to its end.
func carry(ctx context.Context, f *fake, p decide.Plan) decide.Report {
	p.Decision.Time = time.Now()
	e := New(f.options())
	e.Start(ctx, p)
	return <-e.Reports()
}

func TestTheOrderOfARun(t *testing.T) {
	t.Parallel()
	blocked := evict.Result{Outcome: evict.BlockedByBudget, Budget: "web"}
	open := func(name string) *decide.InDoubt {
		c := pod(name)
		return &decide.InDoubt{Attempt: decide.Attempt{Entry: c.Entry, Result: evict.Result{Outcome: evict.Unconfirmed, Pending: true, Sent: time.Now()}}, First: time.Now()}
	}
	for _, test := range []struct {
		name   string
		change func(*fake, *decide.Plan)
		want   string // the calls
		why    string // the hold
	}{
		{"the first is accepted", func(*fake, *decide.Plan) {}, "save a, intent a, evict a, held a", ""},
		{"a refusal: the next", func(f *fake, _ *decide.Plan) {
			f.answers = map[string]evict.Result{"a": blocked}
		}, "save a, intent a, evict a, save b, intent b, evict b, held b", ""},
		{"a refusal of its budget: those that it selects are not tried", func(f *fake, p *decide.Plan) {
			f.answers = map[string]evict.Result{"a": blocked}
			p.Candidates[1].Entry.Pod.LabelsHash = p.Candidates[0].Entry.Pod.LabelsHash
		}, "save a, intent a, evict a", ""},
		{"the same, but it is not ready", func(f *fake, p *decide.Plan) {
			f.answers = map[string]evict.Result{"a": blocked}
			p.Candidates[1].Entry.Pod.LabelsHash = p.Candidates[0].Entry.Pod.LabelsHash
			p.Candidates[0].Entry.Pod.Ready = false
		}, "save a, intent a, evict a, save b, intent b, evict b, held b", ""},
		{"an overloaded server: none", func(f *fake, _ *decide.Plan) {
			f.answers = map[string]evict.Result{"a": {Outcome: evict.Throttled}}
		}, "save a, intent a, evict a", ""},
		{"a dry run is not in doubt", func(_ *fake, p *decide.Plan) { p.Decision.DryRun = true }, "intent a, evict a", ""},
		{"the watch does not list it", func(f *fake, _ *decide.Plan) { f.unlisted = "a" }, "", "AwaitingNewerSample"},
		{"in doubt, and its pod cannot be read", func(f *fake, p *decide.Plan) {
			p.InDoubt, f.unread = open("x"), errPlanted()
		}, "look x", "RequestInDoubt"},
		{"in doubt, and its pod is terminating", func(f *fake, p *decide.Plan) {
			p.InDoubt, f.looks = open("x"), map[string]evict.Outcome{"x": evict.Evicted}
		}, "look x", "ReclaimInProgress"},
		{"in doubt, and its pod stays: it is the first", func(_ *fake, p *decide.Plan) {
			p.InDoubt = open("b")
		}, "look b, save b, intent b, evict b, held b", ""},
		{"in doubt about another resource: it is the last", func(_ *fake, p *decide.Plan) {
			p.Others = []decide.InDoubt{*open("a")}
		}, "look a, save b, intent b, evict b, held b", ""},
		{"a bypass", func(f *fake, p *decide.Plan) {
			p.BypassPDB, p.Candidates = true, p.Candidates[:1]
			f.answers, f.budgets = map[string]evict.Result{"a": blocked}, map[string]evict.Budget{"web": {Name: "web"}}
		}, "save a, intent a, evict a, budget web, save a, intent a, delete a, held a", ""},
		{"a bypass of an old refusal asks again", func(f *fake, p *decide.Plan) {
			p.BypassPDB, p.Candidates = true, p.Candidates[:1]
			p.Candidates[0].BlockedByPDB, p.Candidates[0].PDB = true, "web"
			f.budgets = map[string]evict.Budget{"web": {Name: "web"}}
		}, "budget web, save a, intent a, evict a, held a", ""},
		{"a bypass beside a pod that was denied before its budget refused another", func(f *fake, p *decide.Plan) {
			p.BypassPDB = true
			p.Candidates[1].Entry.Pod.LabelsHash = p.Candidates[0].Entry.Pod.LabelsHash
			f.answers = map[string]evict.Result{"a": {Outcome: evict.Denied}, "b": blocked}
			f.budgets = map[string]evict.Budget{"web": {Name: "web"}}
		}, "save a, intent a, evict a, save b, intent b, evict b, budget web, save b, intent b, delete b, held b", ""},
		{"a bypass that would not suffice", func(f *fake, p *decide.Plan) {
			p.BypassPDB, p.Required, p.Candidates = true, 100, p.Candidates[:1]
			p.Candidates[0].Expected = pressure.Amounts{}.With(pressure.MemoryAvailable, 99)
			f.answers = map[string]evict.Result{"a": blocked}
		}, "save a, intent a, evict a", "InsufficientReclaim"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f, p := &fake{}, decide.Plan{Candidates: []decide.Candidate{pod("a"), pod("b")}}
				test.change(f, &p)
				report := carry(t.Context(), f, p)
				calls := strings.Join(f.all(), ", ")
				if calls != test.want || strings.Contains(calls, "held") != (report.Held["slab"] == 7) {
					t.Errorf("calls %q, want %q; held %v", calls, test.want, report.Held)
				}
				if why := string(report.Hold); why != test.why {
					t.Errorf("%q (%s), want %q", why, report.Detail, test.why)
				}
			})
		})
	}
}

// The plan is the loop's to read while it is carried out.
func TestThePlanIsNotWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := decide.Plan{Candidates: []decide.Candidate{pod("a"), pod("b"), pod("c")}, BypassPDB: true}
		for i := range p.Candidates {
			p.Candidates[i].Entry.Pod.LabelsHash = 0 // one budget selects all
		}
		p.Others = []decide.InDoubt{{Attempt: decide.Attempt{Entry: p.Candidates[0].Entry, Result: evict.Result{Pending: true, Sent: time.Now()}}}}
		p.Decision.Notes = append(make([]string, 0, 8), "planned")
		before := p
		before.Candidates, before.Others = slices.Clone(p.Candidates), slices.Clone(p.Others)
		f := &fake{
			answers: map[string]evict.Result{"b": {Outcome: evict.BlockedByBudget, Budget: "web"}},
			budgets: map[string]evict.Budget{"web": {Name: "web"}},
		}
		report := carry(t.Context(), f, p)
		if fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", p) {
			t.Errorf("the plan after it was carried out:\n%+v\nbefore:\n%+v", p, before)
		}
		if len(report.Shared) != 2 || len(report.Notes) != 3 || p.Decision.Notes[:2][1] != "" {
			t.Errorf("%d refusals are shared, notes %q", len(report.Shared), report.Notes)
		}
	})
}
