package history

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

const (
	// before is how long before an incident the growth of pods is looked at, and after how long before and behind it
	// its story goes.
	before = 10 * time.Minute
	after  = time.Minute
	// grown is how many pods are named that grew most.
	grown = 5
)

// WriteIncidents writes a line for each incident, for people.
func WriteIncidents(w io.Writer, all []*Incident) error {
	rows := [][]string{{"INCIDENT", "LOWEST", "BELOW", "EVICTD", "KUBELET", "KERNEL", "RECLAIMED", "ENDED"}}
	for _, i := range all {
		evicted := fmt.Sprint(len(i.Evicted))
		if len(i.WouldEvict) > 0 {
			evicted += fmt.Sprintf(" (%d would)", len(i.WouldEvict))
		}
		rows = append(rows, []string{
			i.ID, i.lowest(), i.below(), evicted, fmt.Sprint(len(i.Kubelet)), fmt.Sprint(len(i.Killed)),
			wording.Figure(i.Signal, i.Reclaimed), i.How(),
		})
	}
	return wording.Table(w, wording.Columns, rows)
}

func (i *Incident) lowest() string {
	if i.Lowest == nil {
		return "unknown"
	}
	return wording.Figure(i.Signal, *i.Lowest)
}

func (i *Incident) below() string {
	return time.Duration(i.BelowSeconds * float64(time.Second)).Round(time.Second / 10).String()
}

// story is an incident as [Record.Show] tells it. Amounts are in the signal's unit.
type story struct {
	of     *Incident
	state  State
	rows   [][]string
	first  map[string]int64    // what each pod used ten minutes before
	growth []string            // the pods that grew most until it began, a cell each
	most   map[string]int64    // what each pod used at most
	ended  map[string]rank.Pod // the pods that evictd, the kubelet or the kernel ended, by namespace/name
	began  bool                // the growth is known
	seen   map[string]bool     // the UIDs of all pods so far
}

// Show tells the story of an incident, for people. An error says that the record does not have it.
func (r *Record) Show(w io.Writer, id string) error {
	began, _ := time.Parse("20060102T150405.000Z", id[strings.LastIndex(id, "-")+1:]) // of another ID, all is read
	all, err := r.Incidents(began)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(all, func(i *Incident) bool { return i.ID == id })
	if at < 0 {
		return fmt.Errorf("the record has no incident %q; evictd incidents lists those that it has", id)
	}
	s := &story{of: all[at], first: map[string]int64{}, most: map[string]int64{}, ended: map[string]rank.Pod{}, seen: map[string]bool{}}
	from, until := s.of.Began.Add(-before), s.of.Ended.Add(after)
	err = r.Each(from, func(l *Line) error {
		switch {
		case l.Time.Before(from) && l.Node == nil:
			return nil
		case !s.of.Ended.IsZero() && l.Time.After(until):
			return errFound
		}
		return s.take(l)
	})
	if err != nil && !errors.Is(err, errFound) {
		return err
	}
	return s.write(w)
}

// take takes the next line.
func (s *story) take(l *Line) error {
	if !s.began && !l.Time.Before(s.of.Began) {
		s.began = true
		s.growth = s.grew()
	}
	switch {
	case l.Log != nil:
		s.logged(parse(l.Log), l.Time)
		return nil
	case l.Lost > 0:
		s.say(l.Time, "%d lines of the record are missing: they came too fast, or the disk of the record was short", l.Lost)
		return nil
	}
	known := s.state.Node != nil
	if err := s.state.Take(l); err != nil || s.state.Node == nil {
		return err
	}
	s.pods(l.Time, known)
	return nil
}

// pods follows what the pods use, and which come.
func (s *story) pods(at time.Time, known bool) {
	for _, pod := range s.state.Node.Facts(s.of.Signal) {
		if known && s.began && !s.seen[pod.UID] && s.lost(pod.Owner) {
			s.say(at, "%s of %s comes back", pod.Key(), pod.Owner)
		}
		s.seen[pod.UID] = true
		if !pod.Sampled {
			continue
		}
		if _, known := s.first[pod.Key()]; !known {
			s.first[pod.Key()] = pod.Usage
		}
		s.most[pod.Key()] = max(s.most[pod.Key()], pod.Usage)
	}
}

// lost reports whether a pod of an owner was ended.
func (s *story) lost(owner string) bool {
	return owner != "" && slices.ContainsFunc(slices.Collect(maps.Values(s.ended)), func(p rank.Pod) bool { return p.Owner == owner })
}

// grew returns the pods that grew most.
func (s *story) grew() (cells []string) {
	if s.state.Node == nil {
		return nil
	}
	pods := s.state.Node.Facts(s.of.Signal)
	growth := func(p rank.Pod) int64 { return p.Usage - s.first[p.Key()] }
	slices.SortFunc(pods, func(a, b rank.Pod) int { return cmp.Compare(growth(b), growth(a)) })
	for _, p := range pods[:min(grown, len(pods))] {
		if p.Sampled && growth(p) > 0 {
			cells = append(cells, fmt.Sprintf("%s grew by %s to %s, requests %s", p.Key(), s.amount(growth(p)), s.amount(p.Usage), s.amount(p.Request)))
		}
	}
	return cells
}

func (s *story) amount(n int64) string { return wording.Figure(s.of.Signal, n) }

func (s *story) say(at time.Time, format string, values ...any) {
	s.rows = append(s.rows, []string{at.UTC().Format("15:04:05.0"), fmt.Sprintf(format, values...)})
}

// logged tells a line of the log, unless it is another incident's.
func (s *story) logged(l *logged, at time.Time) {
	if l.Incident != "" && l.Incident != s.of.ID || at.Before(s.of.Began.Add(-after)) {
		return
	}
	switch l.Msg {
	case MsgBegan:
		s.say(at, "%s is %s: the incident begins", l.Signal, s.amount(l.Available))
	case MsgEnded:
		s.say(at, "the incident has ended")
	case MsgDecision:
		s.decided(l)
	case MsgGone:
		s.gone(l, at)
	case MsgKilled:
		s.ended[l.Killed] = s.facts(l.Killed)
		s.say(at, "the kernel kills container %s of %s", l.Container, l.Killed)
	case "started", "configuration applied", "evictd acts", "evictd does not act":
		s.say(at, "%s", l.Msg)
	default:
		if l.Level != "info" {
			s.say(at, "%s", strings.TrimSuffix(l.Msg+": "+cmp.Or(l.Error, l.Detail), ": "))
		}
	}
}

// gone tells the end of a victim.
func (s *story) gone(l *logged, at time.Time) {
	back := "what came back is not known"
	if l.Reclaimed != nil {
		back = s.amount(*l.Reclaimed) + " of " + l.Signal.String() + " came back"
	}
	if _, known := s.ended[l.Victim]; !known {
		s.ended[l.Victim] = s.facts(l.Victim)
	}
	s.say(at, "%s has ended after %.1f s: %s", l.Victim, l.Seconds, back)
}

// facts returns what is known of a pod.
func (s *story) facts(key string) rank.Pod {
	if s.state.Node != nil {
		for _, known := range s.state.Node.Facts(s.of.Signal) {
			if known.Key() == key {
				return known
			}
		}
	}
	return rank.Pod{}
}

// decided tells a decision.
func (s *story) decided(l *logged) {
	if len(l.Attempts) == 0 {
		s.say(l.Time, "evictd holds, %s", strings.TrimSuffix(l.Hold+": "+l.Detail, ": "))
		return
	}
	all, unknown := s.candidates()
	for _, a := range l.Attempts {
		what := "asks for " + a.Pod + ": " + strings.TrimSuffix(string(a.Outcome)+": "+cmp.Or(a.Message, a.Budget), ": ")
		switch {
		case a.Outcome.Accepted() && a.Again:
			what = fmt.Sprintf("shortens the grace period of %s to %d s", a.Pod, a.Grace)
		case a.Outcome.Accepted() && a.Pod == l.Victim:
			what = fmt.Sprintf("%s %s, %d of %d candidates", map[bool]string{false: "evicts", true: "would evict"}[a.Outcome.Simulated()], a.Pod, a.Rank, l.Of)
			if at := slices.IndexFunc(all, func(e status.Entry) bool { return e.UID == a.UID }); at >= 0 {
				what += ": it " + all[at].Reason
			}
			s.ended[a.Pod] = s.facts(a.Pod)
		}
		s.say(l.Time, "evictd %s", what)
	}
	s.say(l.Time, "%s is %s, its line %s, %s are missing; %s", l.Signal, s.amount(l.Available), s.amount(l.Line), s.amount(l.Deficit), smaller(all, unknown, l))
}

// candidates are those of the last document, in their order; unknown says why that is not known.
func (s *story) candidates() (all []status.Entry, unknown string) {
	if s.state.Node == nil {
		return nil, "the record has nothing of the node before"
	}
	d := *s.state.Node
	if d.Rank(s.of.Signal); d.Ranking == nil {
		return nil, d.Unranked
	}
	return d.Ranking.Candidates, ""
}

// smaller says whether a candidate that uses less would have sufficed.
func smaller(all []status.Entry, unknown string, l *logged) string {
	if unknown != "" {
		return "whether a smaller one would have sufficed is not known: " + unknown
	}
	var least *status.Entry
	for i := range all {
		e := &all[i]
		if e.Usage != nil && *e.Usage >= l.Deficit && *e.Usage < l.Usage && (least == nil || *e.Usage < *least.Usage) {
			least = e
		}
	}
	if least == nil {
		return "no smaller candidate would have sufficed"
	}
	return fmt.Sprintf("a smaller one would have sufficed, %s/%s, candidate %d: it %s", least.Namespace, least.Name, least.Rank, least.Reason)
}

// write writes the story.
func (s *story) write(w io.Writer) error {
	i, signal := s.of, s.of.Signal
	node := ""
	if s.state.Node != nil {
		node = " of " + s.state.Node.NodeName + ", evictd " + s.state.Node.EvictdVersion
	}
	rows := [][]string{
		{i.ID + node},
		{fmt.Sprintf("%s was below a line for %s, at %s at the lowest. Ended: %s. Pods evicted by evictd: %d, by the kubelet: %d; OOM kills: %d.",
			signal, i.below(), i.lowest(), i.How(), len(i.Evicted), len(i.Kubelet), len(i.Killed))},
		nil,
	}
	for _, cell := range s.growth {
		rows = append(rows, []string{"BEFORE", cell})
	}
	rows = append(append(rows, nil), s.rows...)
	for _, key := range i.Kubelet {
		rows = append(rows, []string{"", "the kubelet evicted " + key})
	}
	rows = append(rows, nil)
	for _, key := range slices.Sorted(maps.Keys(s.ended)) {
		rows = append(rows, []string{"HINT", s.hint(key, signal)})
	}
	return wording.Table(w, wording.Columns, rows)
}

// hint says to a pod's owner what would have kept it.
func (s *story) hint(key string, signal pressure.Signal) string {
	e, of := s.ended[key], ""
	used := max(s.most[key], e.Usage)
	if e.Owner != "" {
		of = " of " + e.Owner
	}
	text := fmt.Sprintf("%s%s requests %s and used %s at most", key, of, s.amount(e.Request), s.amount(used))
	if signal.Kind() != pressure.PIDKind && used > e.Request {
		text += fmt.Sprintf("; with a request of %s, those above theirs would have gone before it", s.amount(used))
	}
	return text
}
