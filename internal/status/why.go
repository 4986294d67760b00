package status

import (
	"fmt"
	"io"
	"slices"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

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
	var r rows
	s := d.signal(signal)
	r.say("%s on node %s, ranked by %s (%s %s of %s)", key, d.NodeName, order.Resource, signal,
		figure(signal, s.Available, unknown), figure(signal, s.Capacity, unknown))
	r.add()
	r.position(&all[at], len(order.Candidates))
	r.facts(&all[at])
	for next := max(1, at); next <= at+1 && next < len(order.Candidates); next++ {
		r.compared(&all[next-1], &all[next])
	}
	return r.write(w)
}

// say adds a sentence in a line of its own.
func (r *rows) say(format string, values ...any) { r.add(fmt.Sprintf(format, values...)) }

// position says where the pod stands, or what protects it and what lifts that.
func (r *rows) position(e *rank.Entry, candidates int) {
	if e.Protection == rank.NotProtected {
		r.say("It is candidate %d of %d.", e.Position, candidates)
	} else {
		r.say("It is protected and no candidate: %s.", e.Protection)
	}
	if e.Detail != "" {
		r.say("And: %s.", e.Detail)
	}
	if e.Protection != rank.NotProtected {
		r.add(Advice(e.Protection))
	}
}

// facts says what the pod uses and requests, its priority, its controller and its grace period. Of its memory
// it says both figures, one of which is the usage.
func (r *rows) facts(e *rank.Entry) {
	pod := e.Pod
	r.say("It %s.", e.Facts())
	if e.Resource == rank.Memory && pod.Sampled {
		r.say("Its end would give back %s to MemAvailable; its working set, with page cache that is in use, is %s.",
			rank.Bytes(pod.Reclaim), rank.Bytes(pod.WorkingSet))
	}
	owner := "It has no controller"
	if pod.Owner != "" {
		owner = "It belongs to " + pod.Owner
	}
	r.say("%s, and its own grace period is %d s.", owner, pod.GraceSeconds)
}

// compared says by what a candidate goes before the next one.
func (r *rows) compared(first, second *rank.Entry) {
	key, one, other, queue := rank.Compare(first, second)
	text := fmt.Sprintf("Candidate %d, %s, goes before candidate %d, %s: %s, %s and %s",
		first.Position, first.Pod.Key(), second.Position, second.Pod.Key(), key, one, other)
	if key == rank.KeyPriority && queue != "" {
		text += " as " + queue + " counts it"
	}
	r.say("%s.", text)
}
