package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

const (
	// askEvery is how long answers about budgets are shown before somebody is asked
	// again: --watch looks more often.
	askEvery = 10 * time.Second
	// askTimeout bounds all requests of one round. What is not answered by then is
	// unknown.
	askTimeout = 10 * time.Second
	// askAtOnce is how many requests are under way at a time.
	askAtOnce = 4
)

// dryRunner asks what an eviction would be answered.
type dryRunner interface {
	Evict(ctx context.Context, r evict.Request) evict.Result
}

// inquiry asks the API server what it would answer to the candidates' evictions, by
// server-side dry runs. The server checks budgets and admission as for a real one and
// changes nothing: neither the pod nor what the budget allows. It is for one goroutine.
type inquiry struct {
	evictor dryRunner
	first   int
	also    string // a pod that is asked about whatever its place; "" is none
	now     func() time.Time

	asked   time.Time // zero before the first round
	answers []snapshot.Budget
	note    string
}

// newInquiry asks about the first candidates, and about one by its namespace and name.
func newInquiry(evictor dryRunner, first int, also string, now func() time.Time) *inquiry {
	return &inquiry{evictor: evictor, first: first, also: also, now: now}
}

// ask returns the answers, those of the last round where it was a short while ago, and
// a note on what may not be asked; "" when there is nothing to say.
func (q *inquiry) ask(ctx context.Context, candidates []rank.Entry) (answers []snapshot.Budget, note string) {
	if q.asked.IsZero() || q.now().Sub(q.asked) >= askEvery {
		round := &round{evictor: q.evictor, noRight: map[string]string{}}
		round.ask(ctx, q.wanted(candidates))
		q.asked, q.answers, q.note = q.now(), round.answers, round.note()
	}
	return here(q.answers, candidates), q.note
}

// wanted returns the candidates to ask about.
func (q *inquiry) wanted(candidates []rank.Entry) []*rank.Pod {
	var pods []*rank.Pod
	for i := range candidates {
		if i < q.first || candidates[i].Pod.Key() == q.also {
			pods = append(pods, candidates[i].Pod)
		}
	}
	return pods
}

// here leaves out the answers about pods that are candidates no more.
func here(answers []snapshot.Budget, candidates []rank.Entry) []snapshot.Budget {
	var kept []snapshot.Budget
	for _, answer := range answers {
		if slices.ContainsFunc(candidates, func(e rank.Entry) bool { return e.Pod.UID == answer.UID }) {
			kept = append(kept, answer)
		}
	}
	return kept
}

// round is one round of requests.
type round struct {
	evictor dryRunner

	mu      sync.Mutex
	answers []snapshot.Budget
	noRight map[string]string // namespaces in which the account may not ask, with the server's text
	stopped bool              // the server asks to be left alone
}

// ask asks about each pod, a few at a time, and returns when all are answered or the
// time is over.
func (r *round) ask(ctx context.Context, pods []*rank.Pod) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(askAtOnce)
	for _, pod := range pods {
		group.Go(func() error {
			if r.may(pod) {
				r.take(pod, r.answerTo(ctx, pod))
			}
			return nil
		})
	}
	_ = group.Wait() // no request returns an error
	slices.SortFunc(r.answers, func(a, b snapshot.Budget) int { return cmp.Compare(a.UID, b.UID) })
}

// may reports whether there is a point in asking about the pod.
func (r *round) may(pod *rank.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, refused := r.noRight[pod.Namespace]
	return !refused
}

// answerTo asks about one pod, unless the time is over or the server asks for rest.
func (r *round) answerTo(ctx context.Context, pod *rank.Pod) evict.Result {
	r.mu.Lock()
	stopped := r.stopped
	r.mu.Unlock()
	switch {
	case stopped:
		return evict.Result{Outcome: evict.Unconfirmed, Message: "not asked: the API server asks to be left alone"}
	case ctx.Err() != nil:
		return evict.Result{Outcome: evict.Unconfirmed, Message: "not asked: the API server took too long to answer about others"}
	}
	return r.evictor.Evict(ctx, evict.Request{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, DryRun: true})
}

// take keeps an answer.
func (r *round) take(pod *rank.Pod, answer evict.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.NoRight {
		r.noRight[pod.Namespace] = answer.Message
		return
	}
	r.stopped = r.stopped || answer.Outcome == evict.Throttled
	r.answers = append(r.answers, snapshot.Budget{
		UID: pod.UID, Outcome: answer.Outcome, Budget: answer.Budget, Message: answer.Message,
	})
}

// note says where the account has no right to ask; "" when it had one everywhere.
func (r *round) note() string {
	if len(r.noRight) == 0 {
		return ""
	}
	namespaces := slices.Sorted(maps.Keys(r.noRight))
	return fmt.Sprintf("budgets are not shown for pods in %s: the account lacks the right to create pods/eviction there, "+
		"which a dry run needs too; grant it, or leave the question out by --budgets=0: %s",
		strings.Join(namespaces, ", "), r.noRight[namespaces[0]])
}

// budgetInWords is an answer as the table shows it; a dash where nobody was asked.
func budgetInWords(b *rankBudget) string {
	if b == nil {
		return "-"
	}
	switch evict.Outcome(b.Outcome) {
	case evict.WouldEvict:
		return "allowed"
	case evict.BlockedByBudget:
		return joined("blocked", "by", b.Budget)
	case evict.BudgetPending:
		return joined("pending", "", b.Budget)
	case evict.Denied:
		return joined("denied:", "", b.Message)
	case evict.Misconfigured:
		return "several budgets"
	case evict.Gone:
		return "gone"
	default:
		return "unknown"
	}
}

// joined puts words before a name, if there is one.
func joined(word, between, name string) string {
	if name == "" {
		return strings.TrimSuffix(word, ":")
	}
	return strings.Join(strings.Fields(word+" "+between+" "+name), " ")
}
