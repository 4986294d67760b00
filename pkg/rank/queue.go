package rank

import (
	"fmt"
	"math"
	"slices"
)

// Queue is one priority queue: a share of the node's pods, with its own view of priorities.
// The terms and their meaning are YuniKorn's, which defines them for scheduling; here they
// order evictions.
type Queue struct {
	// Name is unique among its siblings.
	Name string
	// Holds reports whether a pod with that namespace and those labels belongs to this
	// queue. Parents are checked first. nil: the pods that a queue below holds.
	Holds func(namespace string, labels map[string]string) bool
	// Fence hides the priorities inside: to its parent every pod of the queue has priority 0
	// plus Offset (priority.policy: fence).
	Fence bool
	// Offset is added to the priorities that the parent sees (priority.offset). Sums
	// stay within int32.
	Offset int32
	// IgnorePriority says that all pods of the queue, and of the queues below, have priority
	// 0 (application.sort.priority: disabled).
	IgnorePriority bool
	// GuaranteedMemory is in bytes; 0 guarantees nothing. While the pods of the queue and of
	// the queues below use less than it, they are not candidates for memory, unless there
	// are no others.
	GuaranteedMemory int64
	// Queues are the queues below.
	Queues []Queue
}

// Root is the name of the queue that holds all others, and the pods that none of the others
// holds.
const Root = "root"

// level is the state of one queue during ranking.
type level struct {
	queue  *Queue // nil for the root
	path   string
	parent *level
	depth  int // 0 for the root
	ignore bool
	below  []*level
	own    []*Entry // candidates
	used   int64    // by all pods here and below, as far as it is known
}

// grow adds the queues below.
func (l *level) grow(queues []Queue) {
	for i := range queues {
		q := &queues[i]
		below := &level{
			queue: q, path: l.path + "." + q.Name, parent: l, depth: l.depth + 1,
			ignore: l.ignore || q.IgnorePriority,
		}
		below.grow(q.Queues)
		l.below = append(l.below, below)
	}
}

// deepest returns the deepest queue that holds the pod.
func (l *level) deepest(p *Pod) *level {
	for _, below := range l.below {
		if below.holds(p) {
			return below.deepest(p)
		}
	}
	return l
}

func (l *level) holds(p *Pod) bool {
	if l.queue.Holds != nil {
		return l.queue.Holds(p.Namespace, p.Labels)
	}
	return slices.ContainsFunc(l.below, func(below *level) bool { return below.holds(p) })
}

// Queue returns the path of the queue that the pod belongs to, from the root on; "" where no
// queues are configured.
func (e *Entry) Queue() string {
	if e.level == nil {
		return ""
	}
	return e.level.path
}

// EffectivePriority returns the pod's priority as the root sees it, after the fences and
// offsets of its queues. Without queues it is the pod's own.
func (e *Entry) EffectivePriority() int32 { return e.seenBy(nil) }

// seenBy returns the pod's priority as a queue that holds it sees it, after the fences and offsets of the
// queues between; nil is the root.
func (e *Entry) seenBy(l *level) int32 {
	priority := e.Pod.Priority
	if e.level != nil && e.level.ignore {
		priority = 0
	}
	for at := e.level; at != l && at.queue != nil; at = at.parent {
		if at.queue.Fence {
			priority = 0
		}
		priority = int32(max(math.MinInt32, min(math.MaxInt32, int64(priority)+int64(at.queue.Offset))))
	}
	return priority
}

// shelter returns which queue, this or one above, uses less than its guarantee; nil where none does.
func (l *level) shelter() *level {
	for at := l; at.queue != nil; at = at.parent {
		if at.used < at.queue.GuaranteedMemory {
			return at
		}
	}
	return nil
}

// order returns the candidates of a queue and of the queues below: its own pods in their
// order, merged with the orders of the queues below by comparing heads, with the priorities
// that this queue sees. A comparison of two pods at a time is not possible: a fence would
// make it cyclic.
func (l *level) order() []*Entry {
	rows := [][]*Entry{l.own}
	for _, below := range l.below {
		rows = append(rows, below.order())
	}
	for _, row := range rows {
		for _, e := range row {
			e.shown = e.seenBy(l)
		}
	}
	slices.SortFunc(l.own, compareShown)
	l.own = nil // an entry is kept with its queue, and not with all others
	return merge(rows)
}

// merge merges rows by comparing their heads. Merging two halves first gives the same
// result: the head of a merged half is the first of its heads.
func merge(rows [][]*Entry) []*Entry {
	if len(rows) == 1 {
		return rows[0]
	}
	a, b := merge(rows[:len(rows)/2]), merge(rows[len(rows)/2:])
	merged := make([]*Entry, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if compareShown(a[0], b[0]) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// meeting returns the deepest queue that holds both, where their pods are compared.
func meeting(x, y *level) *level {
	for x != y {
		if x.depth >= y.depth {
			x = x.parent
		} else {
			y = y.parent
		}
	}
	return x
}

// orderByQueues returns the candidates in the order of the queues. Candidates that a
// guarantee shelters become protected. Without queues there is the root alone, without a name.
func orderByQueues(resource Resource, entries []Entry, queues []Queue) []*Entry {
	root := &level{}
	if len(queues) > 0 {
		root.path = Root
	}
	root.grow(queues)
	for i := range entries {
		e := &entries[i]
		e.level = root.deepest(e.Pod)
		for at := e.level; at != nil && e.Pod.Sampled; at = at.parent {
			at.used += e.Pod.Usage
		}
	}
	if resource == Memory {
		protectSheltered(entries)
	}
	for _, e := range entriesOf(entries, true) {
		e.level.own = append(e.level.own, e)
	}
	return root.order()
}

// protectSheltered protects the pods of sheltered queues while there is another candidate.
// Without one, the sheltered pods stay candidates, because the node still needs a victim.
func protectSheltered(entries []Entry) {
	all := entriesOf(entries, true)
	if !slices.ContainsFunc(all, func(e *Entry) bool { return e.level.shelter() == nil }) {
		return
	}
	for _, e := range all {
		if by := e.level.shelter(); by != nil {
			e.Protection = ProtectedWithinGuarantee
			e.Detail = fmt.Sprintf("queue %s uses %s of the %s that it is guaranteed", by.path, Bytes(by.used), Bytes(by.queue.GuaranteedMemory))
		}
	}
}
