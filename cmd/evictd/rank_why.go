package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/rank"
)

// story explains the position of one pod.
type story struct {
	bytes.Buffer

	seen  *sight
	entry *rank.Entry
}

// writeWhy writes the explanation of the pod with that namespace/name.
func writeWhy(w io.Writer, seen *sight, key string) error {
	entry := seen.entry(key)
	if entry == nil {
		return fmt.Errorf("--why %s: no such pod on node %s; evictd knows %d there, and lists them without --why",
			key, seen.node.NodeName, len(seen.ranking.Candidates)+len(seen.ranking.Protected))
	}
	s := &story{seen: seen, entry: entry}
	s.say("%s on node %s, ranked by %s (%s)", key, seen.node.NodeName, seen.ranking.Resource, available(seen))
	s.say("")
	if entry.Protection == rank.NotProtected {
		s.candidate()
	} else {
		s.protected()
	}
	_, err := w.Write(s.Bytes())
	return err
}

// say writes one line; text from pods cannot break it.
func (s *story) say(format string, values ...any) {
	_, _ = s.WriteString(wording.OneLine(fmt.Sprintf(format, values...)) + "\n") // a buffer takes everything
}

func (s *story) candidate() {
	all := s.seen.ranking.Candidates
	s.say("It is candidate %d of %d.", s.entry.Position, len(all))
	s.detail()
	s.facts()
	s.neighbours(all)
	s.say("")
	s.budget()
}

// detail adds to the pod's position, where there is something to add.
func (s *story) detail() {
	if s.entry.Detail != "" {
		s.say("And: %s.", s.entry.Detail)
	}
}

// facts says what the pod uses, its request and its priority.
func (s *story) facts() {
	pod, resource := s.entry.Pod, s.seen.ranking.Resource
	in := func(n int64) string { return amount(resource.String(), &n) }
	switch {
	case !pod.Sampled:
		s.say("What it uses of %s is not known; it requests %s.", resource, in(pod.Request))
	case s.entry.Exceeds:
		s.say("It uses %s of %s and requests %s: %s over.", in(pod.Usage), resource, in(pod.Request), in(s.entry.Over))
	default:
		s.say("It uses %s of %s and requests %s: within its request.", in(pod.Usage), resource, in(pod.Request))
	}
	s.memory()
	s.cgroup()
	s.say("%s", s.priority())
	owner := "It has no controller"
	if pod.Owner != "" {
		owner = "It belongs to " + pod.Owner
	}
	s.say("%s, and its own grace period is %d s.", owner, pod.GraceSeconds)
}

// memory says which of the two figures of the pod's memory is its usage, and the other.
func (s *story) memory() {
	pod := s.entry.Pod
	if !pod.Sampled || s.seen.ranking.Resource != rank.Memory {
		return
	}
	if s.seen.signal.CountsWorkingSet(s.seen.node.Configuration.MemoryDefinition()) {
		s.say("That is its working set, as %s counts it; its end would give back %s to MemAvailable.", s.seen.signal, rank.Bytes(pod.Reclaim))
		return
	}
	s.say("That is what its end would give back to MemAvailable; its working set, with page cache that is in use, is %s.", rank.Bytes(pod.WorkingSet))
}

// priority follows the pod's priority from its own queue to the root.
func (s *story) priority() string {
	own := fmt.Sprintf("Its priority is %d", s.entry.Pod.Priority)
	levels := s.entry.Levels()
	if len(levels) == 0 {
		return own + "; there are no queues."
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s. It belongs to queue %s, where it counts as %d", own, levels[0].Queue, levels[0].Priority)
	if levels[0].Ignores {
		text.WriteString(", as all pods there do (application.sort.priority: disabled)")
	}
	for i := 1; i < len(levels); i++ {
		fmt.Fprintf(&text, "; %s, so that %s counts it as %d", crossing(&levels[i-1]), levels[i].Queue, levels[i].Priority)
	}
	return text.String() + "."
}

// crossing says how a queue changes the priority that its parent sees.
func crossing(l *rank.Level) string {
	switch {
	case l.Fence && l.Offset != 0:
		return fmt.Sprintf("%s is a fence with offset %d", l.Queue, l.Offset)
	case l.Fence:
		return l.Queue + " is a fence"
	case l.Offset != 0:
		return fmt.Sprintf("%s adds its offset %d", l.Queue, l.Offset)
	default:
		return l.Queue + " changes nothing"
	}
}

// neighbours compares the candidate with the one before it and the one after it.
func (s *story) neighbours(all []rank.Entry) {
	s.say("")
	place := s.entry.Position - 1
	if place == 0 {
		s.say("No candidate goes before it.")
	} else {
		before := &all[place-1]
		s.say("Candidate %d, %s, goes before it:", before.Position, before.Pod.Key())
		s.compared(before, s.entry)
	}
	s.say("")
	if place+1 == len(all) {
		s.say("No candidate goes after it.")
		return
	}
	after := &all[place+1]
	s.say("Candidate %d, %s, goes after it:", after.Position, after.Pod.Key())
	s.compared(s.entry, after)
}

// compared writes the keys of a comparison, one a line, up to the one that decides.
func (s *story) compared(first, second *rank.Entry) {
	table := tabwriter.NewWriter(&s.Buffer, 0, 8, 2, ' ', 0)
	steps, queue := rank.Compare(first, second)
	for _, step := range steps {
		name := keyInWords(step.Key)
		if step.Key == rank.KeyPriority && queue != "" {
			name += " as " + queue + " counts it"
		}
		verdict := "equal"
		if step.Decides {
			verdict = "decides: " + keyRule(step.Key)
		}
		_, _ = fmt.Fprintf(table, "  %s\t%s %s\t%s %s\t%s\n", wording.OneLine(name), // a buffer takes everything
			wording.OneLine(first.Pod.Name), wording.OneLine(step.A), wording.OneLine(second.Pod.Name), wording.OneLine(step.B), verdict)
	}
	_ = table.Flush()
}

// keyInWords names what a key compares.
func keyInWords(key rank.Key) string {
	switch key {
	case rank.KeyPriority:
		return "priority"
	case rank.KeyOver:
		return "usage minus request"
	case rank.KeyAge:
		return "age"
	default:
		return key.String()
	}
}

// keyRule says which pod a key puts first.
func keyRule(key rank.Key) string {
	switch key {
	case rank.KeyExceeds:
		return "the pod that uses more than its request goes first"
	case rank.KeyPriority:
		return "the lower goes first"
	case rank.KeyOver:
		return "the larger goes first"
	case rank.KeyAge:
		return "the younger goes first"
	case rank.KeyUID:
		return "the smaller goes first, nothing else tells them apart"
	default:
		return key.String()
	}
}

// budget gives the API server's response to a dry run of its eviction.
func (s *story) budget() {
	answer := reportedBudget(s.seen, s.entry)
	if answer == nil {
		s.say("Budget: the API server was not asked, so it is not known whether a PDB blocks it.")
		return
	}
	switch evict.Outcome(answer.Outcome) {
	case evict.WouldEvict:
		s.say("Budget: allowed. The API server would accept its eviction.")
	case evict.Denied:
		s.say("Budget: denied. The API server would refuse its eviction: %s", answer.Message)
	default:
		s.say("Budget: %s. The API server answers: %s", budgetInWords(answer), answer.Message)
	}
}

// protected says what protects the pod, what lifts that, and which position it would have.
func (s *story) protected() {
	s.say("It is protected and no candidate: %s.", s.entry.Protection)
	s.detail()
	s.say("%s", advice(s.entry.Protection))
	s.facts()
	s.say("")
	if !s.entry.Pod.Sampled {
		s.say("Where it would stand without the protection cannot be said: its usage is not known.")
		return
	}
	supposed := rank.Suppose(s.seen.ranking.Resource, s.pods(), s.seen.node.Configuration.Rules(), s.entry.Pod.UID)
	place := slices.IndexFunc(supposed.Candidates, func(e rank.Entry) bool { return e.Pod.UID == s.entry.Pod.UID })
	if place < 0 {
		return
	}
	s.entry = &supposed.Candidates[place]
	s.say("Without the protection it would be candidate %d of %d.", s.entry.Position, len(supposed.Candidates))
	s.neighbours(supposed.Candidates)
}

// pods returns what was ranked.
func (s *story) pods() []rank.Pod {
	var pods []rank.Pod
	for _, entries := range [][]rank.Entry{s.seen.ranking.Candidates, s.seen.ranking.Protected} {
		for i := range entries {
			pods = append(pods, *entries[i].Pod)
		}
	}
	return pods
}
