package status

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// story explains the position of one pod.
type story struct {
	bytes.Buffer

	document *Document
	signal   pressure.Signal
	ranking  rank.Ranking
	entry    *rank.Entry
}

// WriteWhy explains where the pod with that namespace/name stands in the order for a signal, and why.
func (d *Document) WriteWhy(w io.Writer, signal pressure.Signal, key string) error {
	order, err := d.order(signal)
	if err != nil {
		return err
	}
	s := &story{document: d, signal: signal, ranking: order, entry: find(&order, key)}
	if s.entry == nil {
		return fmt.Errorf("no pod %s on node %s; evictd knows %d there, and evictd rank lists them", key, d.NodeName, len(d.Pods)+d.FinishedOmitted)
	}
	s.say("%s on node %s, ranked by %s (%s)", key, d.NodeName, order.Resource, d.available(signal))
	s.say("")
	if s.entry.Protection == rank.NotProtected {
		s.candidate()
	} else {
		s.protected()
	}
	_, err = w.Write(s.Bytes())
	return err
}

func find(order *rank.Ranking, key string) *rank.Entry {
	for _, entries := range [][]rank.Entry{order.Candidates, order.Protected} {
		if at := slices.IndexFunc(entries, func(e rank.Entry) bool { return e.Pod.Key() == key }); at >= 0 {
			return &entries[at]
		}
	}
	return nil
}

// say writes one line; text from pods cannot break it.
func (s *story) say(format string, values ...any) {
	_, _ = s.WriteString(wording.OneLine(fmt.Sprintf(format, values...)) + "\n") // a buffer takes everything
}

func (s *story) candidate() {
	s.say("It is candidate %d of %d.", s.entry.Position, len(s.ranking.Candidates))
	s.further()
	s.facts()
	s.neighbours(s.ranking.Candidates)
}

// protected says what protects the pod, what lifts that, and which position it would have.
func (s *story) protected() {
	s.say("It is protected and no candidate: %s.", s.entry.Protection)
	s.further()
	s.say("%s", Advice(s.entry.Protection))
	s.facts()
	s.say("")
	if !s.entry.Pod.Sampled {
		s.say("Where it would stand without the protection cannot be said: its usage is not known.")
		return
	}
	pods, uid := s.document.facts(s.signal), s.entry.Pod.UID
	supposed := rank.Suppose(s.ranking.Resource, pods, s.document.Configuration.Rules(), uid)
	place := slices.IndexFunc(supposed.Candidates, func(e rank.Entry) bool { return e.Pod.UID == uid })
	if place < 0 {
		return
	}
	s.entry = &supposed.Candidates[place]
	s.say("Without the protection it would be candidate %d of %d.", s.entry.Position, len(supposed.Candidates))
	s.neighbours(supposed.Candidates)
}

// further adds to the pod's position, where there is something to add.
func (s *story) further() {
	if s.entry.Detail != "" {
		s.say("And: %s.", s.entry.Detail)
	}
}

// facts says what the pod uses, its request and its priority.
func (s *story) facts() {
	pod, resource := s.entry.Pod, s.ranking.Resource
	in := func(n int64) string { return wording.Figure(s.signal, n) }
	switch {
	case !pod.Sampled:
		s.say("What it uses of %s is not known; it requests %s.", resource, in(pod.Request))
	case s.entry.Exceeds:
		s.say("It uses %s of %s and requests %s: %s over.", in(pod.Usage), resource, in(pod.Request), in(s.entry.Over))
	default:
		s.say("It uses %s of %s and requests %s: within its request.", in(pod.Usage), resource, in(pod.Request))
	}
	if resource == rank.Memory && pod.Sampled {
		s.memory()
	}
	s.priority()
	owner := "It has no controller"
	if pod.Owner != "" {
		owner = "It belongs to " + pod.Owner
	}
	s.say("%s, and its own grace period is %d s.", owner, pod.GraceSeconds)
}

// memory says which of the two figures of the pod's memory is its usage, the other, and what it is made of.
func (s *story) memory() {
	pod := s.entry.Pod
	if s.signal.CountsWorkingSet(s.document.Configuration.MemoryDefinition()) {
		s.say("That is its working set, as %s counts it; its end would give back %s to MemAvailable.", s.signal, rank.Bytes(pod.Reclaim))
	} else {
		s.say("That is what its end would give back to MemAvailable; its working set, with page cache that is in use, is %s.", rank.Bytes(pod.WorkingSet))
	}
	at := slices.IndexFunc(s.document.Pods, func(p Pod) bool { return p.UID == pod.UID })
	used, kernel := s.document.Pods[at].Memory, "not known"
	if used.Kernel != nil {
		kernel = rank.Bytes(*used.Kernel)
	}
	s.say("Its cgroup tells: anonymous %s, tmpfs and shared memory %s, kernel memory %s.", rank.Bytes(used.Anonymous), rank.Bytes(used.Shared), kernel)
}

// priority follows the pod's priority from its own queue to the root.
func (s *story) priority() {
	levels := s.entry.Levels()
	if len(levels) == 0 {
		s.say("Its priority is %d; there are no queues.", s.entry.Pod.Priority)
		return
	}
	s.say("Its priority is %d. By its queues it counts as:", s.entry.Pod.Priority)
	for _, l := range levels {
		var how []string
		if l.Ignores {
			how = append(how, "application.sort.priority: disabled")
		}
		if l.Fence {
			how = append(how, "a fence")
		}
		if l.Offset != 0 {
			how = append(how, fmt.Sprintf("offset %d", l.Offset))
		}
		text := fmt.Sprintf("  %d in %s", l.Priority, l.Queue)
		if len(how) > 0 {
			text += " (" + strings.Join(how, ", ") + ")"
		}
		s.say("%s", text)
	}
}

// neighbours compares the candidate with the one before it and the one after it.
func (s *story) neighbours(all []rank.Entry) {
	s.say("")
	place := s.entry.Position - 1
	if place == 0 {
		s.say("No candidate goes before it.")
	} else {
		s.say("Candidate %d, %s, goes before it:", place, all[place-1].Pod.Key())
		s.compared(&all[place-1], s.entry)
	}
	s.say("")
	if place+1 == len(all) {
		s.say("No candidate goes after it.")
		return
	}
	s.say("Candidate %d, %s, goes after it:", place+2, all[place+1].Pod.Key())
	s.compared(s.entry, &all[place+1])
}

// compared writes the keys of a comparison, one a line, up to the one that decides.
func (s *story) compared(first, second *rank.Entry) {
	steps, queue := rank.Compare(first, second)
	var lines rows
	for _, step := range steps {
		name, rule := words(step.Key)
		if step.Key == rank.KeyPriority && queue != "" {
			name += " as " + queue + " counts it"
		}
		verdict := "equal"
		if step.Decides {
			verdict = "decides: " + rule
		}
		lines.add("  "+name, first.Pod.Name+" "+step.A, second.Pod.Name+" "+step.B, verdict)
	}
	_ = lines.write(&s.Buffer) // a buffer takes everything
}

// words names what a key compares, and says which pod it puts first.
func words(key rank.Key) (name, rule string) {
	text := map[rank.Key][2]string{
		rank.KeyExceeds:  {key.String(), "the pod that uses more than its request goes first"},
		rank.KeyPriority: {"priority", "the lower goes first"},
		rank.KeyOver:     {"usage minus request", "the larger goes first"},
		rank.KeyAge:      {"age", "the younger goes first"},
		rank.KeyUID:      {key.String(), "the smaller goes first, nothing else tells them apart"},
	}[key]
	return text[0], text[1]
}
