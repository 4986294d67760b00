package main

import (
	"time"

	"github.com/evictd/evictd/pkg/rank"
)

// rankReport is what `evictd rank -o json` prints.
type rankReport struct {
	Node string `json:"node"`
	// Time is when the node was read.
	Time   time.Time `json:"time"`
	Signal string    `json:"signal"`
	// Available and Capacity are the signal's, in its unit; missing where they are unknown.
	Available  *int64      `json:"available,omitempty"`
	Capacity   *int64      `json:"capacity,omitempty"`
	Resource   string      `json:"resource"`
	Candidates []rankEntry `json:"candidates"`
	Protected  []rankEntry `json:"protected"`
}

// rankEntry is one pod of the report. Usage and over are missing where the usage is unknown.
type rankEntry struct {
	Rank      int    `json:"rank,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Owner     string `json:"owner,omitempty"`
	Priority  int32  `json:"priority"`
	// Queue is missing where no queues are configured; the effective priority is then the
	// pod's own.
	Queue     string `json:"queue,omitempty"`
	Effective int32  `json:"effectivePriority"`
	Usage     *int64 `json:"usage,omitempty"`
	// WorkingSet and Reclaim are two figures of the pod's memory, one of which is the usage;
	// missing for other resources.
	WorkingSet *int64 `json:"workingSet,omitempty"`
	Reclaim    *int64 `json:"reclaim,omitempty"`
	Request    int64  `json:"request"`
	Over       *int64 `json:"over,omitempty"`
	Exceeds    bool   `json:"exceeds"`
	Grace      int64  `json:"graceSeconds"`
	// Budget is missing where there was no dry run, as for protected pods.
	Budget     *rankBudget `json:"budget,omitempty"`
	Protection string      `json:"protection,omitempty"`
	Reason     string      `json:"reason"`
}

// rankBudget is the result of a dry run of the pod's eviction.
type rankBudget struct {
	// Outcome is the result in the terms of the log and the runbook.
	Outcome string `json:"outcome"`
	// Budget is the PodDisruptionBudget that refused; missing where the response names none.
	Budget string `json:"budget,omitempty"`
	// Message is the API server's text; missing where it would have accepted.
	Message string `json:"message,omitempty"`
}

func newRankReport(seen *sight) *rankReport {
	report := &rankReport{
		Node: seen.node.NodeName, Time: seen.node.Time, Signal: seen.signal.String(), Resource: seen.ranking.Resource.String(),
		Candidates: rankEntries(seen, seen.ranking.Candidates),
		Protected:  rankEntries(seen, seen.ranking.Protected),
	}
	if figures, found := seen.node.Of(seen.signal); found {
		report.Available, report.Capacity = figures.Available, figures.Capacity
	}
	return report
}

func rankEntries(seen *sight, entries []rank.Entry) []rankEntry {
	reported := make([]rankEntry, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		r := rankEntry{
			Rank: e.Position, Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID,
			Owner: e.Pod.Owner, Priority: e.Pod.Priority, Queue: e.Queue(), Effective: e.EffectivePriority(), Request: e.Pod.Request,
			Exceeds: e.Exceeds, Grace: e.Pod.GraceSeconds, Budget: reportedBudget(seen, e),
			Protection: string(e.Protection), Reason: e.Why(),
		}
		if e.Pod.Sampled {
			r.Usage, r.Over = &e.Pod.Usage, &e.Over
			if e.Resource == rank.Memory {
				r.WorkingSet, r.Reclaim = &e.Pod.WorkingSet, &e.Pod.Reclaim
			}
		}
		reported = append(reported, r)
	}
	return reported
}

// reportedBudget returns the result for a candidate. A snapshot that is ranked by another
// configuration may contain one for a pod that is protected now.
func reportedBudget(seen *sight, e *rank.Entry) *rankBudget {
	answer := seen.budget(e.Pod.UID)
	if answer == nil || e.Protection != rank.NotProtected {
		return nil
	}
	return &rankBudget{Outcome: string(answer.Outcome), Budget: answer.Budget, Message: answer.Message}
}
