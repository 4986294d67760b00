package history

import (
	"cmp"
	"encoding/json"
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
	Attempts []Request `json:"attempts"`
	Victim   string    `json:"victim"`
	UID      string    `json:"uid"`
	Usage    int64     `json:"usage"`
	// Of the end of a victim and of an incident:
	Seconds   float64  `json:"duration_seconds"`
	Reclaimed *int64   `json:"reclaimed"`
	Victims   []string `json:"victims"`
	Would     []string `json:"would_be_victims"`
	Kubelet   []string `json:"kubelet_evictions"`
	// Of a kill, and of all else:
	Killed    string `json:"pod"`
	Container string `json:"container"`
	Error     string `json:"error"`
}

// Request is one of a decision for a pod, with its answer. Pod is namespace/name, Grace in seconds; Again says that it
// shortens the grace period of a victim.
type Request struct {
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
	MsgBegan    = "incident began"
	MsgEnded    = "incident ended"
	MsgDecision = "decision"
	MsgGone     = "victim ended"
	MsgKilled   = "the kernel killed processes of a pod for want of memory"
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
	c := collected{all: []*Incident{}}
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
	node State
}

// reading returns what is available of a signal, and whether that is below one of its lines; nil where it is not known.
func reading(d *status.Document, signal pressure.Signal) (available *int64, below bool) {
	at := slices.IndexFunc(d.Signals, func(s status.Signal) bool { return s.Name == signal && s.Available != nil })
	if at < 0 {
		return nil, false
	}
	s := &d.Signals[at]
	return s.Available, slices.ContainsFunc(s.Thresholds, func(t status.Threshold) bool { return t.Line != nil && *s.Available < *t.Line })
}

// take takes the next line. What a calm node's change is not needed, and would take long.
func (c *collected) take(l *Line) error {
	if l.Log != nil {
		c.logged(parse(l.Log), l.Time)
		return nil
	}
	if l.Node == nil && !slices.ContainsFunc(c.all, func(i *Incident) bool { return i.Ended.IsZero() }) {
		return nil
	}
	before := c.node.Node
	if err := c.node.Take(l); err != nil || before == nil || c.node.Node == nil {
		return err
	}
	for _, i := range c.all {
		if i.Ended.IsZero() {
			i.reads(before, c.node.Node)
		}
	}
	return nil
}

// reads takes a document, and the one before.
func (i *Incident) reads(before, now *status.Document) {
	_, below := reading(before, i.Signal)
	if gap := min(now.Time.Sub(before.Time), now.Time.Sub(i.Began)); below && gap < frameTime { // in a longer one no evictd ran
		i.BelowSeconds += max(0, gap.Seconds())
	}
	if available, _ := reading(now, i.Signal); available != nil && (i.Lowest == nil || *available < *i.Lowest) {
		i.Lowest = available
	}
}

// logged takes a line of the log. An incident may have begun before the record.
func (c *collected) logged(l *logged, at time.Time) {
	if l.Incident != "" && !slices.ContainsFunc(c.all, func(i *Incident) bool { return i.ID == l.Incident }) {
		for _, i := range c.all {
			if i.Ended.IsZero() && i.Signal == l.Signal { // its end is lost
				i.Ended = l.Since
			}
		}
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
	case MsgBegan:
		i.Lowest = &l.Available
	case MsgEnded:
		i.Ended, i.Kubelet, i.Lowest = at, l.Kubelet, cmp.Or(l.Lowest, i.Lowest)
		i.Evicted, i.WouldEvict = l.Victims, l.Would // its beginning may be lost
	case MsgDecision:
		for n := range l.Attempts {
			i.request(&l.Attempts[n])
		}
	case MsgGone:
		i.gone(l)
	case MsgKilled:
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
func (i *Incident) request(a *Request) {
	switch {
	case !a.Outcome.Accepted() || slices.Contains(i.uids, a.UID):
	case a.Outcome.Simulated():
		i.WouldEvict, i.uids = append(i.WouldEvict, a.Pod), append(i.uids, a.UID)
	default:
		i.Evicted, i.uids = append(i.Evicted, a.Pod), append(i.uids, a.UID)
	}
}
