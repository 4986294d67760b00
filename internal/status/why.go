package status

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// story explains the position of one pod.
type story struct {
	bytes.Buffer

	document *Document
	entry    *rank.Entry
}

// WriteWhy explains where the pod with that namespace/name stands in the order for a signal, and why.
func (d *Document) WriteWhy(w io.Writer, signal pressure.Signal, key string) error {
	signal = rankedFor(signal)
	order, err := d.order(signal)
	if err != nil {
		return err
	}
	all := slices.Concat(order.Candidates, order.Protected)
	at := slices.IndexFunc(all, func(e rank.Entry) bool { return e.Pod.Key() == key })
	if at < 0 {
		return fmt.Errorf("no pod %s on node %s, or it has finished; evictd knows %d there, and evictd rank lists them", key, d.NodeName, len(all))
	}
	s := &story{document: d, entry: &all[at]}
	s.say("%s on node %s, ranked by %s (%s)", key, d.NodeName, order.Resource, d.available(signal))
	s.say("")
	s.position(len(order.Candidates))
	s.facts()
	for next := max(1, at); next <= at+1 && next < len(order.Candidates); next++ {
		s.compared(&all[next-1], &all[next])
	}
	_, err = w.Write(s.Bytes())
	return err
}

// say writes one line; text from pods cannot break it.
func (s *story) say(format string, values ...any) {
	_, _ = s.WriteString(wording.OneLine(fmt.Sprintf(format, values...)) + "\n") // a buffer takes everything
}

// position says where the pod stands, or what protects it and what lifts that.
func (s *story) position(candidates int) {
	protection := s.entry.Protection
	if protection == rank.NotProtected {
		s.say("It is candidate %d of %d.", s.entry.Position, candidates)
	} else {
		s.say("It is protected and no candidate: %s.", protection)
	}
	if s.entry.Detail != "" {
		s.say("And: %s.", s.entry.Detail)
	}
	if protection != rank.NotProtected {
		s.say("%s", Advice(protection))
	}
}

// facts says what the pod uses and requests, its priority, its controller and its grace period.
func (s *story) facts() {
	pod := s.entry.Pod
	s.say("It %s.", s.entry.Facts())
	if s.entry.Resource == rank.Memory && pod.Sampled {
		s.memory()
	}
	owner := "It has no controller"
	if pod.Owner != "" {
		owner = "It belongs to " + pod.Owner
	}
	s.say("%s, and its own grace period is %d s.", owner, pod.GraceSeconds)
}

// memory says both figures of the pod's memory, one of which is its usage.
func (s *story) memory() {
	at := slices.IndexFunc(s.document.Pods, func(p Pod) bool { return p.UID == s.entry.Pod.UID })
	used, kernel := s.document.Pods[at].Usage, "not known"
	if used.KernelKnown {
		kernel = rank.Bytes(used.Kernel)
	}
	s.say("Its end would give back %s to MemAvailable: anonymous %s, tmpfs and shared memory %s, kernel memory %s.",
		rank.Bytes(used.Reclaim()), rank.Bytes(used.Anonymous), rank.Bytes(used.Shared), kernel)
	s.say("Its working set, with page cache that is in use, is %s.", rank.Bytes(used.WorkingSet))
}

// compared says by what a candidate goes before the next one.
func (s *story) compared(first, second *rank.Entry) {
	key, one, other, queue := rank.Compare(first, second)
	text := fmt.Sprintf("Candidate %d, %s, goes before candidate %d, %s: %s, %s and %s",
		first.Position, first.Pod.Key(), second.Position, second.Pod.Key(), key, one, other)
	if key == rank.KeyPriority && queue != "" {
		text += " as " + queue + " counts it"
	}
	s.say("%s.", text)
}
