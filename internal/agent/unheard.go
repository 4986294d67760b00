package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/pkg/evict"
)

// lookTimeout bounds the read of a pod whose request's answer nobody heard.
const lookTimeout = 5 * time.Second

// unheard is a request whose answer nobody heard: its pod may be on its way out.
type unheard struct {
	attempt  Attempt
	expected map[string]int64
}

// unheardOf keeps a request that may have been carried out; a dry run's cannot.
func unheardOf(d *Decision, attempt *Attempt, expected map[string]int64) *unheard {
	if attempt.Result.Outcome != evict.Unconfirmed || d.DryRun {
		return nil
	}
	return &unheard{attempt: *attempt, expected: expected}
}

// stillUnheard returns the request nobody knows the end of. Once its pod was seen
// terminating, it is known.
func (a *Agent) stillUnheard() *unheard {
	if a.unheard != nil && a.ledger.Booked(a.unheard.attempt.Entry.Pod.UID) {
		a.unheard = nil
	}
	return a.unheard
}

// lookInto reads the pod of a request nobody heard the end of, before anybody else
// is asked for. When the pod has left or is leaving, that is the decision's only
// attempt, with the outcome that is known now.
func (a *Agent) lookInto(ctx context.Context, d *Decision, open *unheard) report {
	bounded, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	attempt := open.attempt
	fate, err := a.options.Evictor.Look(bounded, requestOf(&attempt, false))
	if err != nil {
		d.Detail = fmt.Sprintf("whether %s is on its way out is still not known: %v", attempt.Entry.Pod.Key(), err)
		return report{decision: d, unheard: open}
	}
	if fate == evict.Stays {
		return report{decision: d}
	}
	attempt.Result = evict.Result{
		Outcome: evict.Gone,
		Message: "the answer to the request was not heard; reading the pod again settled it",
	}
	if fate == evict.Leaving {
		attempt.Result.Outcome, d.Verb = evict.Evicted, Acted
		if attempt.Past != nil {
			attempt.Result.Outcome, d.BestEffort = evict.Deleted, BestEffortDeleted
		}
	}
	d.Attempts = append(d.Attempts, attempt)
	return report{decision: d, expected: open.expected}
}
