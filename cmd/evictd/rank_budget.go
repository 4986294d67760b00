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
	// askEvery is how long the results of dry runs are shown before they are repeated:
	// --watch refreshes more often.
	askEvery = 10 * time.Second
	// askTimeout bounds all requests of one round. A result that is missing by then is
	// unknown.
	askTimeout = 10 * time.Second
	// askAtOnce is how many requests run at a time.
	askAtOnce = 4
)

// dryRunner sends an eviction as a dry run.
type dryRunner interface {
	Evict(ctx context.Context, r evict.Request) evict.Result
}

// inquiry finds out how the API server would respond to the candidates' evictions, by
// server-side dry runs. The server checks budgets and admission as for a real eviction and
// changes nothing: neither the pod nor what the budget allows. It is for one goroutine.
type inquiry struct {
	evictor dryRunner
	first   int
	also    string // a pod that is included whatever its position; "" is none
	now     func() time.Time

	asked   time.Time // zero before the first round
	answers []snapshot.Budget
	note    string
}

// newInquiry returns an inquiry for the first candidates, and for one by its namespace and
// name.
func newInquiry(evictor dryRunner, first int, also string, now func() time.Time) *inquiry {
	return &inquiry{evictor: evictor, first: first, also: also, now: now}
}

// ask returns the results, those of the last round where it is recent, and a note on missing
// rights; "" when there is none.
func (q *inquiry) ask(ctx context.Context, candidates []rank.Entry) (answers []snapshot.Budget, note string) {
	if q.asked.IsZero() || q.now().Sub(q.asked) >= askEvery {
		round := &round{evictor: q.evictor, noRight: map[string]string{}}
		round.ask(ctx, q.wanted(candidates))
		q.asked, q.answers, q.note = q.now(), round.answers, round.note()
	}
	return here(q.answers, candidates), q.note
}

// wanted returns the candidates to include.
func (q *inquiry) wanted(candidates []rank.Entry) []*rank.Pod {
	var pods []*rank.Pod
	for i := range candidates {
		if i < q.first || candidates[i].Pod.Key() == q.also {
			pods = append(pods, candidates[i].Pod)
		}
	}
	return pods
}

// here drops the results for pods that are no longer candidates.
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
	noRight map[string]string // namespaces without the right, with the server's text
	stopped bool              // the server is throttling
}

// ask sends a dry run for each pod, a few at a time, and returns when all have a result or
// the time is over.
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

// may reports whether a dry run for the pod is useful.
func (r *round) may(pod *rank.Pod) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, refused := r.noRight[pod.Namespace]
	return !refused
}

// answerTo sends a dry run for one pod, unless the time is over or the server is throttling.
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

// take records a result.
func (r *round) take(pod *rank.Pod, answer evict.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if answer.NoRight {
		r.noRight[pod.Namespace] = answer.Message
		return
	}
	r.stopped = r.stopped || answer.Outcome == evict.Throttled && !answer.PodAlone
	r.answers = append(r.answers, snapshot.Budget{
		UID: pod.UID, Outcome: answer.Outcome, Budget: answer.Budget, Message: answer.Message,
	})
}

// note says where the account lacks the right; "" when it had it everywhere.
func (r *round) note() string {
	if len(r.noRight) == 0 {
		return ""
	}
	namespaces := slices.Sorted(maps.Keys(r.noRight))
	return fmt.Sprintf("budgets are not shown for pods in %s: the account lacks the right to create pods/eviction there, "+
		"which a dry run needs too; grant it, or leave the question out by --budgets=0: %s",
		strings.Join(namespaces, ", "), r.noRight[namespaces[0]])
}

// budgetInWords is a result as the table shows it; a dash where there was no dry run.
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
	case evict.Evacuating:
		return "moved by admission"
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
