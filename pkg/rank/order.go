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
	switch k {
	case KeyNone:
		return "none"
	case KeyExceeds:
		return "exceeds its request"
	case KeyPriority:
		return "lower priority"
	case KeyOver:
		return "larger usage over request"
	case KeyAge:
		return "younger"
	case KeyUID:
		return "UID"
	default:
		return "unknown key"
	}
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
	supposed bool // a candidate despite any protection, see Suppose
	// Protection is why the pod may not be evicted; NotProtected for a candidate.
	Protection Protection
	// Detail is one clause that adds to Protection, or says of a candidate that its
	// annotation is ignored; "" when there is nothing to add.
	Detail string

	place *place // in the queues; nil without queues
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
		entries[i] = newEntry(resource, &pods[i], &rules)
	}
	return order(resource, entries, &rules)
}

// order ranks entries whose protection is already determined.
func order(resource Resource, entries []Entry, rules *Rules) Ranking {
	for i := range entries {
		entries[i].Position = i // until they are arranged
	}
	var sorted []*Entry // pointers: an entry is too large to swap
	if len(rules.Queues) > 0 {
		sorted = orderByQueues(resource, entries, rules.Queues)
	} else {
		sorted = sortEntries(resource, entriesOf(entries, true), func(e *Entry) int32 { return e.Pod.Priority })
	}
	protected := entriesOf(entries, false)
	slices.SortFunc(protected, func(a, b *Entry) int { return byName(a.Pod, b.Pod) })
	count := len(sorted)
	arrange(entries, append(sorted, protected...))
	ranking := Ranking{Resource: resource, Candidates: entries[:count:count], Protected: entries[count:]}
	for i := range ranking.Protected {
		ranking.Protected[i].Position = 0
	}
	number(ranking.Candidates, comparator(resource))
	return ranking
}

// arrange puts all entries in the order of the pointers to them, with the index of each as
// its Position. Copying all entries would cost more than the sort.
func arrange(entries []Entry, order []*Entry) {
	from := make([]int, len(order))
	for i, e := range order {
		from[i] = e.Position
	}
	for start := range from {
		first := entries[start]
		for at := start; from[at] >= 0; {
			next := from[at]
			from[at] = -1
			if next == start {
				entries[at] = first
				break
			}
			entries[at] = entries[next]
			at = next
		}
	}
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

func newEntry(resource Resource, p *Pod, rules *Rules) Entry {
	e := Entry{Pod: p, Resource: resource, Protection: rules.Protects(p)}
	if e.Protection == NotProtected {
		e.Detail = rules.ignored(p)
	}
	if p.Sampled {
		e.Exceeds = p.Usage > p.Request
		e.Over = p.Usage - p.Request
	}
	return e
}

// number fills in each candidate's position and the key that puts it before the next one.
func number(candidates []Entry, compare comparison) {
	for i := range candidates {
		candidates[i].Position = i + 1
		if i+1 < len(candidates) {
			a, b := &candidates[i], &candidates[i+1]
			x, y := prioritiesBetween(a, b)
			order, key := compare(a, b, x, y)
			if order > 0 {
				key = KeyNone // only a withheld candidate stood between them
			}
			candidates[i].Before = key
		}
	}
}

// prioritiesBetween returns the two priorities to compare: as the deepest queue that holds
// both pods sees them.
func prioritiesBetween(a, b *Entry) (x, y int32) {
	if a.place == nil {
		return a.Pod.Priority, b.Pod.Priority
	}
	depth := meeting(a.place.level, b.place.level)
	return a.place.seen[depth], b.place.seen[depth]
}

// comparison compares two entries whose priorities are x and y, and returns the key that
// decided.
type comparison func(a, b *Entry, x, y int32) (int, Key)

// comparator returns the comparison for the resource.
func comparator(resource Resource) comparison {
	if resource == PIDs {
		return compareWithoutRequests
	}
	return compareEntries
}

// compareEntries is the order for memory, disk and inodes.
func compareEntries(a, b *Entry, x, y int32) (int, Key) {
	if c := compareBool(a.Exceeds, b.Exceeds); c != 0 {
		return c, KeyExceeds
	}
	return compareWithoutRequests(a, b, x, y)
}

// compareWithoutRequests is the order for PIDs, and the order after the exceeds step for
// every other resource.
func compareWithoutRequests(a, b *Entry, x, y int32) (int, Key) {
	if c := cmp.Compare(x, y); c != 0 {
		return c, KeyPriority
	}
	if c := cmp.Compare(b.Over, a.Over); c != 0 {
		return c, KeyOver
	}
	return compareEqual(a, b)
}

// compareEqual orders two pods that are equal for the kubelet.
func compareEqual(a, b *Entry) (int, Key) {
	if c := b.Pod.Created.Compare(a.Pod.Created); c != 0 {
		return c, KeyAge
	}
	return strings.Compare(a.Pod.UID, b.Pod.UID), KeyUID
}

// compareBool puts true first.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func byName(a, b *Pod) int {
	return cmp.Or(
		strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name),
		strings.Compare(a.UID, b.UID),
	)
}
