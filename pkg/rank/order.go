package rank

import (
	"cmp"
	"slices"
	"strings"
)

// Key is one step of the order. The zero value is KeyNone.
type Key uint8

// The keys, in the order in which they are compared.
const (
	// KeyNone: there is no next candidate, or no key puts this one before it: see
	// [Ranking.Withhold].
	KeyNone Key = iota
	// KeyExceeds: one pod uses more than its request, the other does not.
	KeyExceeds
	// KeyPriority: the lower priority is evicted first.
	KeyPriority
	// KeyOver: the larger usage minus request is evicted first.
	KeyOver
	// KeyAge: the younger pod is evicted first.
	KeyAge
	// KeyUID: the smaller UID is evicted first; all other keys are equal.
	KeyUID
)

// String returns the key in words.
func (k Key) String() string {
	return [...]string{
		KeyNone: "none", KeyExceeds: "exceeds its request", KeyPriority: "lower priority",
		KeyOver: "larger usage over request", KeyAge: "younger", KeyUID: "UID",
	}[k]
}

// Entry is one pod's position in a ranking, with the facts that determine it.
type Entry struct {
	// Pod is the pod as it was ranked.
	Pod *Pod
	// Position counts from 1 among the candidates; 0 for a protected pod.
	Position int
	// Over is usage minus request; it may be negative.
	Over int64
	// Exceeds says that the pod uses more than its request, strictly.
	Exceeds bool
	// Before is the key that puts this pod before the next candidate; KeyNone for
	// the last one and for protected pods.
	Before Key
	// Resource is the resource of the ranking.
	Resource Resource
	// Protection is why the pod may not be evicted; NotProtected for a candidate.
	Protection Protection
	// Detail is one clause that adds to Protection; "" when there is nothing to add.
	Detail string

	level *level // of the queue that the pod belongs to; nil for an entry of no ranking
	shown int32  // the priority that counts where the entry is being sorted
}

// Ranking is the whole order at one moment.
type Ranking struct {
	// Resource is the resource of the ranking.
	Resource Resource
	// Candidates are the pods that may be evicted, in the order of eviction.
	Candidates []Entry
	// Protected are the pods that may not be evicted, by namespace and name.
	Protected []Entry
}

// Order ranks the pods for a resource. It changes no pod but keeps pointers to them, so the
// slice must not be reused while the ranking is in use.
func Order(resource Resource, pods []Pod, rules Rules) Ranking {
	entries := make([]Entry, len(pods))
	for i := range pods {
		p, e := &pods[i], &entries[i]
		e.Pod, e.Resource, e.Protection = p, resource, rules.Protects(p)
		if p.Sampled {
			e.Exceeds, e.Over = p.Usage > p.Request, p.Usage-p.Request
		}
	}
	candidates := orderByQueues(resource, entries, rules.Queues) // pointers: an entry is too large to swap
	count := len(candidates)
	ordered := make([]Entry, len(entries))
	for i, e := range append(candidates, entriesOf(entries, false)...) {
		ordered[i] = *e
	}
	ranking := Ranking{Resource: resource, Candidates: ordered[:count:count], Protected: ordered[count:]}
	ranking.finish()
	return ranking
}

// entriesOf returns the candidates, or the protected pods.
func entriesOf(entries []Entry, candidates bool) []*Entry {
	found := make([]*Entry, 0, len(entries))
	for i := range entries {
		if (entries[i].Protection == NotProtected) == candidates {
			found = append(found, &entries[i])
		}
	}
	return found
}

// finish sorts the protected pods, and fills in each candidate's position and the key that puts it before
// the next one.
func (r *Ranking) finish() {
	slices.SortFunc(r.Protected, byName)
	for i := range r.Candidates {
		e := &r.Candidates[i]
		e.Position, e.Before = i+1, KeyNone
		if i+1 < len(r.Candidates) {
			next := &r.Candidates[i+1]
			x, y := prioritiesBetween(e, next)
			if order, key := compare(e, next, x, y); order < 0 { // otherwise only a withheld candidate stood between them
				e.Before = key
			}
		}
	}
}

func byName(a, b Entry) int {
	return cmp.Or(
		strings.Compare(a.Pod.Namespace, b.Pod.Namespace),
		strings.Compare(a.Pod.Name, b.Pod.Name),
		strings.Compare(a.Pod.UID, b.Pod.UID),
	)
}

// prioritiesBetween returns the two priorities to compare: as the deepest queue that holds
// both pods sees them.
func prioritiesBetween(a, b *Entry) (x, y int32) {
	at := meeting(a.level, b.level)
	return a.seenBy(at), b.seenBy(at)
}

// compareShown compares two entries where they are being sorted.
func compareShown(a, b *Entry) int {
	order, _ := compare(a, b, a.shown, b.shown)
	return order
}

// compare compares two entries of one ranking whose priorities are x and y, and returns the key that
// decides. Tasks cannot be requested, so that PIDs have no exceeds step. The last two keys are for pods
// that are equal for the kubelet.
func compare(a, b *Entry, x, y int32) (int, Key) {
	if a.Exceeds != b.Exceeds && a.Resource != PIDs {
		if a.Exceeds {
			return -1, KeyExceeds
		}
		return 1, KeyExceeds
	}
	if c := cmp.Compare(x, y); c != 0 {
		return c, KeyPriority
	}
	if c := cmp.Compare(b.Over, a.Over); c != 0 {
		return c, KeyOver
	}
	if c := b.Pod.Created.Compare(a.Pod.Created); c != 0 {
		return c, KeyAge
	}
	return strings.Compare(a.Pod.UID, b.Pod.UID), KeyUID
}
