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

// statusAge is how old what the pods use may be in an answer: for 110 pods a reading takes the loop a millisecond, and
// every process of the node can ask.
const statusAge = time.Second

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
			return made, nil
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
		ask.answer <- a.document(now, statusAge)
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

// document returns what is known now, and what the pods used at most that long ago.
func (a *Agent) document(now time.Time, age time.Duration) *status.Document {
	seen := &a.documents
	d := &status.Document{Time: now.UTC(), LastTick: a.progress.Load().at.UTC(), Enforcement: a.acts}
	seen.gap = a.options.KubeletGap(now)
	d.AddSignals(&seen.sample, &seen.verdict, &a.policy.Policy, func() int64 { return seen.gap })
	a.addPods(d, now, age)
	d.AddVictims(a.victims.Export().Victims)
	s := &decide.Situation{Cooldown: a.cooldown}
	if pressures := seen.verdict.Pressures; len(pressures) > 0 {
		s.Pressure = pressures[0]
		a.incidents.Into(s)
	}
	s.Pressure.SampleTime = now
	d.AddBackOffs(s)
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
	seen.whole = now
	a.options.Keep(a.document(now, 0)) // by what a decision of this tick has read
}

// keepSignals hands over what the last tick saw of the signals.
func (a *Agent) keepSignals() {
	at := a.progress.Load().at
	d := &status.Document{Time: at.UTC(), LastTick: at.UTC(), Enforcement: a.acts}
	d.AddSignals(&a.documents.sample, &a.documents.verdict, &a.policy.Policy, func() int64 { return a.documents.gap })
	a.options.Keep(d)
}

// addPods adds the pods with what they use.
func (a *Agent) addPods(d *status.Document, now time.Time, age time.Duration) {
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
	read, err := a.measurer.Recent(now, age)
	if err != nil {
		d.UsageUnread = err.Error()
	}
	d.AddPods(a.options.Pods.List(), read, a.measurer.LastOnDisk)
}
