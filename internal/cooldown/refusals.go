package cooldown

import (
	"maps"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// span is how long a refused request waits: it starts at first and doubles with
// each refusal up to longest.
type span struct{ first, longest time.Duration }

// after returns how long it waits after so many refusals before. The longest is less than 2^16 times the first.
func (s span) after(refusals int) time.Duration { return min(s.first<<min(refusals, 16), s.longest) }

// spanOf returns how long the outcome keeps a pod from being tried again. What an administrator
// must fix waits longest, and so does a pod whose requests get no response repeatedly.
func spanOf(o evict.Outcome) span {
	switch o {
	case evict.BudgetPending, evict.Throttled: // of the pod alone: its webhook may be restarting
		return span{2 * time.Second, time.Minute}
	case evict.BlockedByBudget:
		return span{10 * time.Second, 5 * time.Minute}
	case evict.Evacuating: // longer than the 75 s for which its end is relied on: then others have their turn
		return span{2 * time.Minute, 10 * time.Minute}
	default:
		return span{time.Minute, 10 * time.Minute}
	}
}

// serverSpan is how long no request is sent to the API server after it was overloaded or did not
// respond. Its end is short, because pressure does not wait, and the load is small: one request
// every six seconds from each node under pressure.
func serverSpan() span { return span{time.Second, 6 * time.Second} }

const (
	// longestAsked is the longest Retry-After that is respected: the most that the API server's flow
	// control sends (apiserver/pkg/util/flowcontrol/dropped_requests_tracker.go). A proxy may send an
	// hour, but the node is under pressure now.
	longestAsked = 32 * time.Second
	// stretched is the share by which a wait is stretched at random, so that the agents
	// of many nodes do not come back to the API server together.
	stretched = 0.2
	// inDoubtInARow is the number of requests in a row with an unknown outcome after which a pod that
	// is still there backs off: the cause may be this pod alone, and the others must be tried too. A
	// silent server is rather no fault of the pod, so this must also have lasted for silence.
	inDoubtInARow = 3
	silence       = 30 * time.Second
	// trust is how long a budget that has refused a pod is expected to refuse it still, while only
	// other pods of the budget are tried: the budget or the pod's labels may have been changed.
	trust = 10 * time.Minute
	// triedFor is how long a pod that was tried in a pressure waits for the other candidates at
	// most: as long as the longest back-off after a refusal.
	triedFor = 10 * time.Minute
	// bypassBackOff is how long no PDB is bypassed after that came to nothing: the PDBs are read
	// from the API server, and near a threshold there are a hundred ticks a second.
	bypassBackOff = 10 * time.Second
)

// answered remembers an answer about a pod.
func (t *Tracker) answered(pod *rank.Pod, r *evict.Result, now time.Time) {
	switch own := key(kindPod, pod.Namespace, pod.UID); {
	case r.Outcome.Accepted() || r.Outcome == evict.Gone:
		t.accepted(pod, r.Outcome)
	case r.Outcome.OfBudget() && r.Budget != "" && pod.Ready:
		t.share(pod, r, now)
	case r.TriesNext(), r.Outcome == evict.Evacuating:
		t.extend(own, spanOf(r.Outcome), r, now)
		t.forgetPod(pod, kindShared, kindDoubt)
	case r.Stays:
		if t.isSilent(pod, r, now) {
			t.extend(own, spanOf(r.Outcome), r, now)
			t.forgetPod(pod, kindShared)
		}
	}
	t.heard(r, now)
}

// accepted forgets the refusals before an eviction, and its budget's.
func (t *Tracker) accepted(pod *rank.Pod, outcome evict.Outcome) {
	if shared, is := t.known.Waits[key(kindShared, pod.Namespace, pod.UID)]; is && (outcome == evict.Evicted || outcome == evict.WouldEvict) {
		delete(t.known.Waits, key(kindPDB, pod.Namespace, shared.PDB))
	}
	t.forgetPod(pod, kindPod, kindShared, kindDoubt)
}

func (t *Tracker) forgetPod(pod *rank.Pod, kinds ...string) {
	for _, kind := range kinds {
		delete(t.known.Waits, key(kind, pod.Namespace, pod.UID))
	}
}

// heard puts the API server in back-off after a response that it is overloaded, or after no
// response. A request that was withdrawn has no effect.
func (t *Tracker) heard(r *evict.Result, now time.Time) {
	switch {
	case r.Withdrawn:
	case r.Outcome == evict.Throttled && !r.PodAlone, r.Outcome == evict.Unconfirmed:
		t.extend(key(kindServer, "", ""), serverSpan(), r, now)
	default:
		delete(t.known.Waits, key(kindServer, "", ""))
	}
}

// share puts a pod in the back-off of the PDB that blocks it. Several refusals of one decision
// are one for the PDB.
func (t *Tracker) share(pod *rank.Pod, r *evict.Result, now time.Time) {
	if pdb := key(kindPDB, pod.Namespace, r.Budget); !now.Before(t.known.Waits[pdb].Until) {
		t.extend(pdb, spanOf(r.Outcome), r, now)
	}
	t.forgetPod(pod, kindPod, kindDoubt)
	t.known.Waits[key(kindShared, pod.Namespace, pod.UID)] = Wait{Until: now.Add(t.stretch(trust)), Why: r.Outcome, PDB: r.Budget}
}

// isSilent counts a request for a pod whose outcome is unknown, and reports whether there were too many
// of them in a row.
func (t *Tracker) isSilent(pod *rank.Pod, r *evict.Result, now time.Time) bool {
	doubt := key(kindDoubt, pod.Namespace, pod.UID)
	row := t.known.Waits[doubt]
	if now.Sub(row.Until) >= spanOf(r.Outcome).longest {
		row = Wait{Until: now.Add(silence)}
	}
	row.Count++
	t.known.Waits[doubt] = row
	return row.Count >= inDoubtInARow && (!r.NoResponse || !now.Before(row.Until))
}

// extend doubles a back-off, or uses the time that the server sent. A back-off starts anew when the
// longest time has passed since the last one without a refusal.
func (t *Tracker) extend(what string, s span, r *evict.Result, now time.Time) {
	before := t.known.Waits[what]
	if now.Sub(before.Until) >= s.longest {
		before.Count = 0
	}
	wait := max(s.after(before.Count), min(r.RetryAfter, longestAsked))
	t.known.Waits[what] = Wait{Until: now.Add(t.stretch(wait)), Count: before.Count + 1, Why: r.Outcome, PDB: r.Budget}
}

// stretch makes a wait longer at random.
func (t *Tracker) stretch(wait time.Duration) time.Duration {
	return wait + time.Duration(stretched*t.random()*float64(wait))
}

// refusal returns the refusal for which a pod waits, and false where it does not: then with the PDB whose refusal of
// any ready pod holds for this pod too, "" where there is none. Only while it is ready does it share the back-off of
// a PDB.
func (t *Tracker) refusal(pod *rank.Pod, now time.Time) (Wait, bool) {
	shared := t.known.Waits[key(kindShared, pod.Namespace, pod.UID)]
	if !pod.Ready || !now.Before(shared.Until) {
		own := t.known.Waits[key(kindPod, pod.Namespace, pod.UID)]
		if !now.Before(own.Until) {
			own = Wait{}
		}
		return own, !own.Until.IsZero()
	}
	if budget := t.known.Waits[key(kindPDB, pod.Namespace, shared.PDB)].Until; budget.Before(shared.Until) {
		shared.Until = budget
	}
	return shared, now.Before(shared.Until)
}

// Waiting returns how many of the pods that are present wait because a PDB refused, and how many because more than
// one selects them. What a pod waited for that is not present is forgotten.
func (t *Tracker) Waiting(now time.Time, present func(uid string) bool) (blocked, misconfigured int) {
	for what, w := range t.known.Waits {
		kind, of, _ := strings.Cut(what, "/")
		namespace, uid, _ := strings.Cut(of, "/")
		_, waits := t.refusal(&rank.Pod{Namespace: namespace, UID: uid, Ready: true}, now)
		switch ofPod := kind == kindPod || kind == kindShared || kind == kindDoubt; {
		case ofPod && !present(uid):
			delete(t.known.Waits, what)
		case !waits || !ofPod || kind == kindDoubt:
		case w.Why.OfBudget():
			blocked++
		case w.Why == evict.Misconfigured:
			misconfigured++
		}
	}
	return blocked, misconfigured
}

// tried adds the answers to a plan that ended for its age to the row of its pressure. Any other plan, and
// another incident, ends the row.
func (t *Tracker) tried(d *decide.Decision, stale bool) {
	signal := d.Pressure.Threshold.Signal.String()
	maps.DeleteFunc(t.known.Waits, func(what string, w Wait) bool {
		return strings.HasPrefix(what, key(kindTried, signal, "")) && (!stale || w.Incident != d.Incident)
	})
	for i := range d.Attempts {
		if a := &d.Attempts[i]; stale {
			t.known.Waits[key(kindTried, signal, a.Entry.Pod.UID)] = Wait{Until: d.Time.Add(triedFor), Why: a.Result.Outcome, Incident: d.Incident}
		}
	}
}

// Retry forgets which pods were tried in a pressure: no other candidate is left.
func (t *Tracker) Retry(signal pressure.Signal) {
	t.tried(&decide.Decision{Pressure: pressure.Pressure{Threshold: pressure.Threshold{Signal: signal}}}, false)
}
