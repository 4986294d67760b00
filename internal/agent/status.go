package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/pressure"
)

// statusEvery is how often the pods are read for documents at most: for 110 pods that takes the loop two
// milliseconds, and every client that reaches the node's address can ask.
const statusEvery = time.Second

// statusAsk asks the loop for a document.
type statusAsk struct {
	disk   bool // with a fresh measurement of the disks
	answer chan<- *status.Document
}

// documents are what the loop needs to answer: it makes a document between two ticks, and only when one
// is asked for.
type documents struct {
	asks    chan statusAsk
	waiting []statusAsk
	last    *status.Document // not changed any more; nil before the first, and once a disk was measured
	// sample and verdict are what the last tick saw: their slices are the judge's, until the next tick.
	sample  pressure.Sample
	verdict pressure.Verdict
	// gap is what KubeletGap returned for the last document, kept and whole when a document, and one with the pods, was
	// handed over for the record.
	gap         int64
	kept, whole time.Time
}

// Status returns what the loop knows, without what belongs to the program: the version, the node's name,
// the configuration, the decisions and what is made of all these. With disk the pods' disk use is
// measured where that was not done a moment ago. An error says that the loop did not answer in time.
func (a *Agent) Status(ctx context.Context, disk bool) (*status.Document, error) {
	answer := make(chan *status.Document, 1)     // the loop never waits for a reader
	for asks := a.documents.asks; ; asks = nil { // once
		select {
		case asks <- statusAsk{disk, answer}:
		case made := <-answer:
			own := *made
			return &own, nil
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for evictd's loop: %w", context.Cause(ctx))
		}
	}
}

// answerAsks answers all but those that wait for a measurement of the disks.
func (a *Agent) answerAsks(ctx context.Context) {
	now := time.Now()
	a.documents.waiting = slices.DeleteFunc(a.documents.waiting, func(ask statusAsk) bool {
		if ask.disk && a.awaitsDisk(ctx, now) {
			return false
		}
		ask.answer <- a.document(now)
		return true
	})
}

// awaitsDisk requests a measurement of the disks where there is no fresh one by the policy in force.
func (a *Agent) awaitsDisk(ctx context.Context, now time.Time) bool {
	measured := a.measurer.LastDisk().At
	if now.Sub(measured) < decide.DiskMaxAge && measured.After(a.watched) {
		return false
	}
	a.measurer.RefreshDisk(ctx, now, a.options.Pods.List(), 0)
	return true
}

// document returns what is known now, or what was less than a second ago.
func (a *Agent) document(now time.Time) *status.Document {
	seen := &a.documents
	if last := seen.last; last != nil && now.Sub(last.Time) < statusEvery {
		return last
	}
	ticked, _ := a.progress.get()
	d := &status.Document{Time: now.UTC(), LastTick: ticked.UTC(), Enforcement: a.acts}
	seen.gap = a.options.KubeletGap(now)
	d.AddSignals(&seen.sample, &seen.verdict, &a.policy.Policy, func() int64 { return seen.gap })
	a.addPods(d, now)
	d.AddVictims(a.victims.Export().Victims)
	s := &decide.Situation{Cooldown: a.cooldown}
	if pressures := seen.verdict.Pressures; len(pressures) > 0 {
		s.Pressure = pressures[0]
		a.incidents.Into(s)
	}
	s.Pressure.SampleTime = now
	d.AddBackOffs(s)
	seen.last = d
	return d
}

// The record has the signals each second, and the pods each [keepPodsEvery] or, in an incident, each second too: for 110
// pods they take two milliseconds.
const keepEvery, keepPodsEvery = time.Second, time.Minute

// keep hands a document over for the record, where it is time.
func (a *Agent) keep(now time.Time) {
	seen := &a.documents
	if a.options.Keep == nil || now.Sub(seen.kept) < keepEvery {
		return
	}
	seen.kept = now
	if !a.incidents.Any() && now.Sub(seen.whole) < keepPodsEvery {
		a.keepSignals()
		return
	}
	seen.whole, seen.last = now, nil
	a.options.Keep(a.document(now))
}

// keepSignals hands over what the last tick saw of the signals.
func (a *Agent) keepSignals() {
	at, _ := a.progress.get()
	d := &status.Document{Time: at.UTC(), LastTick: at.UTC(), Enforcement: a.acts}
	d.AddSignals(&a.documents.sample, &a.documents.verdict, &a.policy.Policy, func() int64 { return a.documents.gap })
	a.options.Keep(d)
}

// addPods adds the pods with what they use, read now.
func (a *Agent) addPods(d *status.Document, now time.Time) {
	if !a.options.Pods.Synced() {
		d.PodsUnknown = "the API server has not sent the node's pods yet"
	} else if err := a.options.Pods.Stale(); err != nil {
		d.PodsUnknown = err.Error()
	}
	if disk := a.measurer.LastDisk(); disk.Err != nil {
		d.DiskUnmeasured = disk.Err.Error()
	} else {
		d.DiskMeasured = disk.At
	}
	read, err := a.measurer.Collect(now)
	if err != nil {
		d.UsageUnread = err.Error()
	}
	d.AddPods(a.options.Pods.List(), read, a.measurer.LastOnDisk)
}
