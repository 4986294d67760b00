package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// Incident is a shortage as the record tells it. Amounts are in the signal's unit.
type Incident struct {
	ID     string          `json:"id"`
	Signal pressure.Signal `json:"signal"`
	Began  time.Time       `json:"began"`
	// Ended is when the transition period was over, the zero time while the incident is open as far as is known.
	Ended time.Time `json:"ended,omitzero"`
	// Lowest is the least that was available; nil where that is not known.
	Lowest *int64 `json:"lowest,omitempty"`
	// BelowSeconds is how long the signal was below a line, by the lines of the record.
	BelowSeconds float64 `json:"belowSeconds"`
	// Evicted are the pods that evictd evicted, WouldEvict those of a dry run, Kubelet those that the kubelet evicted, known
	// at the end, and Killed those of which the kernel killed a container; namespace/name, in their order.
	Evicted    []string `json:"evicted,omitempty"`
	WouldEvict []string `json:"wouldEvict,omitempty"`
	Kubelet    []string `json:"kubelet,omitempty"`
	Killed     []string `json:"killed,omitempty"`
	// Reclaimed is what showed in the signal of what the victims held.
	Reclaimed int64 `json:"reclaimed"`

	uids []string // of the victims
}

// How says in a few words how it ended.
func (i *Incident) How() string {
	switch {
	case i.Ended.IsZero():
		return "open"
	case len(i.Evicted) > 0:
		return "after evictions"
	case len(i.Kubelet)+len(i.Killed) > 0:
		return "by others"
	default:
		return "by itself"
	}
}

// logged is what is used of a line of the log; docs/runbook.md has all keys.
type logged struct {
	Level     string          `json:"level"`
	Msg       string          `json:"msg"`
	Time      time.Time       `json:"time"` // of a decision
	Incident  string          `json:"incident"`
	Signal    pressure.Signal `json:"signal"`
	Since     time.Time       `json:"since"`
	Available int64           `json:"available"`
	Lowest    *int64          `json:"lowest"`
	// Of a decision:
	Hold     string    `json:"hold"`
	Detail   string    `json:"detail"`
	Deficit  int64     `json:"deficit"`
	Line     int64     `json:"line"`
	Of       int       `json:"of"`
	Attempts []attempt `json:"attempts"`
	pod
	// Of the end of a victim and of an incident:
	Seconds   float64  `json:"duration_seconds"`
	Reclaimed *int64   `json:"reclaimed"`
	Kubelet   []string `json:"kubelet_evictions"`
	// Of a kill, and of all else:
	Killed    string `json:"pod"`
	Container string `json:"container"`
	Error     string `json:"error"`
}

// pod is the one that a line is about.
type pod struct {
	Victim  string `json:"victim"`
	UID     string `json:"uid"`
	Owner   string `json:"owner"`
	Usage   int64  `json:"usage"`
	Request int64  `json:"request"`
}

// attempt is a request of a decision.
type attempt struct {
	Pod     string        `json:"pod"`
	UID     string        `json:"uid"`
	Rank    int           `json:"rank"`
	Outcome evict.Outcome `json:"outcome"`
	Message string        `json:"message"`
	Budget  string        `json:"budget"`
	Grace   int64         `json:"grace_seconds"`
	Again   bool          `json:"escalates"`
}

// The messages of the log that incidents are made of.
const (
	msgBegan    = "incident began"
	msgEnded    = "incident ended"
	msgDecision = "decision"
	msgGone     = "victim ended"
	msgKilled   = "the kernel killed processes of a pod for want of memory"
)

// parse returns what a line of the log says. What is of another type there is left out: a key means one thing in each
// message, and only messages that are known are used.
func parse(text json.RawMessage) *logged {
	l := &logged{}
	_ = json.Unmarshal(text, l)
	return l
}

// Incidents returns those that were open since a time, the oldest first.
func (r *Record) Incidents(since time.Time) ([]*Incident, error) {
	var c collected
	err := r.Each(since, func(l *Line) error {
		if l.Time.Before(since) && l.Node == nil {
			return nil
		}
		return c.take(l)
	})
	slices.SortStableFunc(c.all, func(a, b *Incident) int { return a.Began.Compare(b.Began) })
	return c.all, err
}

// collected makes incidents of lines.
type collected struct {
	all  []*Incident
	node readings
}

// readings are the signals as the last line says them.
type readings struct {
	signals []status.Signal
	at      time.Time
}

// take takes what a line says of the signals.
func (r *readings) take(l *Line) error {
	var d struct {
		Signals []status.Signal `json:"signals"`
	}
	if err := json.Unmarshal(slices.Concat(l.Node, l.Change), &d); err != nil {
		return fmt.Errorf("reading a line of the record: %w", err)
	}
	r.signals, r.at = d.Signals, l.Time
	return nil
}

// of returns what is available of a signal, and whether that is below one of its lines; nil where it is not known.
func (r *readings) of(signal pressure.Signal) (available *int64, below bool) {
	for _, s := range r.signals {
		if s.Name == signal && s.Available != nil {
			return s.Available, slices.ContainsFunc(s.Thresholds, func(t status.Threshold) bool { return t.Line != nil && *s.Available < *t.Line })
		}
	}
	return nil, false
}

// take takes the next line.
func (c *collected) take(l *Line) error {
	if l.Log != nil {
		c.logged(parse(l.Log), l.Time)
		return nil
	}
	open := slices.ContainsFunc(c.all, func(i *Incident) bool { return i.Ended.IsZero() })
	if !open || l.Lost > 0 {
		return nil
	}
	before := c.node
	if err := c.node.take(l); err != nil {
		return err
	}
	for _, i := range c.all {
		if !i.Ended.IsZero() {
			continue
		}
		_, below := before.of(i.Signal)
		if gap := min(l.Time.Sub(before.at), l.Time.Sub(i.Began)); below && gap < frameTime { // in a longer one no evictd ran
			i.BelowSeconds += max(0, gap.Seconds())
		}
		if available, _ := c.node.of(i.Signal); available != nil && (i.Lowest == nil || *available < *i.Lowest) {
			i.Lowest = available
		}
	}
	return nil
}

// logged takes a line of the log. An incident may have begun before the record.
func (c *collected) logged(l *logged, at time.Time) {
	if l.Incident != "" && !slices.ContainsFunc(c.all, func(i *Incident) bool { return i.ID == l.Incident }) {
		c.all = append(c.all, &Incident{ID: l.Incident, Signal: l.Signal, Began: l.Since})
	}
	for _, i := range c.all {
		if l.Incident == "" || l.Incident == i.ID {
			i.logged(l, at)
		}
	}
}

// logged takes a line of the log that is about the incident, or about none.
func (i *Incident) logged(l *logged, at time.Time) {
	switch l.Msg {
	case msgBegan:
		i.Lowest = &l.Available
	case msgEnded:
		i.Ended, i.Kubelet, i.Lowest = at, l.Kubelet, cmp.Or(l.Lowest, i.Lowest)
	case msgDecision:
		for n := range l.Attempts {
			i.request(&l.Attempts[n])
		}
	case msgGone:
		i.gone(l)
	case msgKilled:
		if i.Ended.IsZero() && i.Signal.Kind() == pressure.MemoryKind {
			i.Killed = append(i.Killed, l.Killed)
		}
	}
}

// gone takes the end of a victim, whose decision may be lost: evictd was killed within a second.
func (i *Incident) gone(l *logged) {
	known := slices.Contains(i.uids, l.UID)
	if l.Signal != i.Signal || !known && !i.Ended.IsZero() {
		return
	}
	if !known {
		i.Evicted, i.uids = append(i.Evicted, l.Victim), append(i.uids, l.UID)
	}
	if l.Reclaimed != nil {
		i.Reclaimed += *l.Reclaimed
	}
}

// request takes an answer.
func (i *Incident) request(a *attempt) {
	switch {
	case !a.Outcome.Accepted() || slices.Contains(i.uids, a.UID):
	case a.Outcome.Simulated():
		i.WouldEvict, i.uids = append(i.WouldEvict, a.Pod), append(i.uids, a.UID)
	default:
		i.Evicted, i.uids = append(i.Evicted, a.Pod), append(i.uids, a.UID)
	}
}
