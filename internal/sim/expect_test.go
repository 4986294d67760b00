package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
)

// What a story expects.

// evicts runs a new agent for a while, and fails the test unless these pods were evicted by then, in this order.
func (n *world) evicts(during time.Duration, names ...string) {
	n.t.Helper()
	n.watch(during)
	n.evicted(names...)
}

// goesOn lets the agent run on for a while, and fails the test unless these pods were evicted by then.
func (n *world) goesOn(during time.Duration, names ...string) {
	n.t.Helper()
	n.on(during)
	n.evicted(names...)
}

// evicted fails the test unless these pods were evicted, in this order.
func (n *world) evicted(names ...string) {
	n.t.Helper()
	same(n.t, "evicted", names, n.Victims())
}

// really fails the test unless these pods were evicted, besides dry runs.
func (n *world) really(names ...string) {
	n.t.Helper()
	same(n.t, "evicted", names, namesOf(n.Node, func(r evict.Request) bool { return !r.DryRun }))
}

// spares runs a new agent for a while, and fails the test where an eviction of the pod was requested: two would be in
// flight for one deficit.
func (n *world) spares(name string, during time.Duration) {
	n.t.Helper()
	if n.watch(during); slices.Contains(n.Victims(), name) {
		n.t.Errorf("evicted %v, want none of %s", n.Victims(), name)
	}
}

// held fails the test unless these are the holds, in this order.
func (n *world) held(holds ...decide.Hold) {
	n.t.Helper()
	same(n.t, "holds", holds, n.Holds())
}

// last returns the newest decision.
func (n *world) last() *decide.Decision {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.decisions) == 0 {
		n.t.Fatal("no decision was recorded")
	}
	return &n.decisions[len(n.decisions)-1]
}

// says fails the test unless the newest decision holds so, with these words in its detail. It returns the
// decision.
func (n *world) says(hold decide.Hold, words ...string) *decide.Decision {
	n.t.Helper()
	d := n.last()
	n.isHold(d, hold, words...)
	return d
}

func (n *world) isHold(d *decide.Decision, hold decide.Hold, words ...string) {
	n.t.Helper()
	lacks := func(word string) bool { return !strings.Contains(d.Detail, word) }
	if d.Hold != hold || slices.ContainsFunc(words, lacks) {
		n.t.Errorf("hold %q (%s), want %q with %q", d.Hold, d.Detail, hold, words)
	}
}

// acted returns the decisions that evicted a pod; there is one at least.
func (n *world) acted() []*decide.Decision {
	n.t.Helper()
	acted := n.decided(func(d *decide.Decision) bool { return d.Verb() == decide.Acted })
	if len(acted) == 0 {
		n.t.Fatalf("no pod was evicted; holds %v", n.Holds())
	}
	return acted
}

// decided returns such decisions.
func (n *world) decided(which func(*decide.Decision) bool) (found []*decide.Decision) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.decisions {
		if which(&n.decisions[i]) {
			found = append(found, &n.decisions[i])
		}
	}
	return found
}

// evictedAt returns when pods were evicted, as the time since the start.
func (n *world) evictedAt() (at []time.Duration) {
	for _, d := range n.decided(func(d *decide.Decision) bool { return d.Verb() == decide.Acted }) {
		at = append(at, d.Time.Sub(n.began))
	}
	return at
}

// requests returns the requests in order: the pod, and how it was to be evicted.
func (n *world) requests() (all []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.evictions {
		how := "evict "
		if r.Delete {
			how = "delete "
		}
		all = append(all, how+r.Name)
	}
	return all
}

// sent fails the test unless these requests were sent.
func (n *world) sent(want ...string) {
	n.t.Helper()
	same(n.t, "requests", want, n.requests())
}

// asked is a request: its pod, and the grace period in seconds; -1 is the pod's own.
type asked struct {
	Name    string
	Seconds int64
}

// graces returns the requests in order.
func (n *world) graces() (all []asked) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.evictions {
		seconds := int64(-1)
		if r.GraceSeconds != nil {
			seconds = *r.GraceSeconds
		}
		all = append(all, asked{r.Name, seconds})
	}
	return all
}

// asksAfter fails the test unless requests were sent after these times, or a moment later.
func (n *world) asksAfter(want ...time.Duration) {
	n.t.Helper()
	var got []time.Duration
	for _, d := range n.decisions {
		for i := range d.Attempts {
			got = append(got, d.Attempts[i].Result.Sent.Sub(n.began))
		}
	}
	if !slices.EqualFunc(want, got, func(w, g time.Duration) bool { return g >= w && g < w+250*time.Millisecond }) {
		n.t.Errorf("asked after %v, want %v", got, want)
	}
}

// kept returns the state in the file; nil where there is none.
func (n *world) kept() *agent.State {
	n.t.Helper()
	s, err := n.file.Load()
	if err != nil {
		n.t.Error(err)
	}
	return s
}

// inFlight returns the victims that terminate, by the state that the last agent left.
func (n *world) inFlight() []decide.Victim { return n.inPhase(decide.Terminating) }

// inDoubt returns those whose request has no known outcome.
func (n *world) inDoubt() []decide.Victim { return n.inPhase(decide.Requested) }

func (n *world) inPhase(phase decide.Phase) (victims []decide.Victim) {
	n.t.Helper()
	for _, v := range n.kept().InFlight.Victims {
		if v.Phase == phase {
			victims = append(victims, v)
		}
	}
	return victims
}

// follows fails the test unless one pod is in flight, evicted for that signal; "" where others end it. It
// returns it.
func (n *world) follows(name, signal string) decide.Victim {
	n.t.Helper()
	way := n.inFlight()
	if len(way) != 1 || way[0].Name != name || way[0].Signal != signal {
		n.t.Fatalf("in flight: %+v, want %s for %q", way, name, signal)
	}
	return way[0]
}

// counts fails the test unless so many evictions count against the limits.
func (n *world) counts(want int) {
	n.t.Helper()
	if got := n.kept().Cooldown.Accepted; len(got) != want {
		n.t.Errorf("%d evictions count against the limits, want %d", len(got), want)
	}
}

// oneIncident fails the test unless one incident has ended, with those victims.
func (n *world) oneIncident(victims ...string) {
	n.t.Helper()
	if len(n.incidents) != 1 {
		n.t.Fatalf("incidents %+v, want one that has ended", n.incidents)
	}
	var named []string
	for _, v := range n.incidents[0].Victims {
		named = append(named, v.Pod)
	}
	same(n.t, "its victims", victims, named)
}

// same fails the test unless two lists are the same.
func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
