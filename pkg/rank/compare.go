package rank

import (
	"strconv"
	"time"
)

// Compare returns the key that puts a candidate of one ranking before another, and its values of both, formatted
// for people. It also returns the queue whose view of their priorities counts: the deepest that holds
// both; "" without queues. The last key, the UID, always decides between two pods.
func Compare(a, b *Entry) (key Key, first, second, queue string) {
	x, y := prioritiesBetween(a, b)
	_, key = compare(a, b, x, y)
	if first, second = a.valueOf(key, x), b.valueOf(key, y); first == second { // only amounts are rounded
		first, second = strconv.FormatInt(a.Over, 10), strconv.FormatInt(b.Over, 10)
	}
	if a.place != nil {
		queue = a.place.level.above(meeting(a.place.level, b.place.level)).path
	}
	return key, first, second, queue
}

// valueOf returns the value of a key. The priority is the one that is compared.
func (e *Entry) valueOf(key Key, priority int32) string {
	switch key {
	case KeyExceeds:
		if e.Exceeds {
			return "yes"
		}
		return "no"
	case KeyPriority:
		return strconv.FormatInt(int64(priority), 10)
	case KeyOver:
		return e.amount(e.Over)
	case KeyAge:
		return "made " + e.Pod.Created.UTC().Format(time.RFC3339)
	case KeyUID:
		return e.Pod.UID
	default:
		return ""
	}
}

// Level is one queue that a pod belongs to, and how it sees the pod.
type Level struct {
	// Queue is the queue's path, from the root on.
	Queue string
	// Priority is the pod's priority as this queue sees it.
	Priority int32
	// Ignores says that all priorities inside count as 0, because of this queue or one
	// above.
	Ignores bool
	// Fence and Offset are how the queue changes the priority that its parent sees; false
	// and 0 for the root.
	Fence  bool
	Offset int32
}

// Levels returns the queues that hold the pod, from its own up to the root; nil without
// queues.
func (e *Entry) Levels() []Level {
	if e.place == nil {
		return nil
	}
	var levels []Level
	for at := e.place.level; at != nil; at = at.parent {
		l := Level{Queue: at.path, Priority: e.place.seen[at.depth], Ignores: at.ignore}
		if at.queue != nil {
			l.Fence, l.Offset = at.queue.Fence, at.queue.Offset
		}
		levels = append(levels, l)
	}
	return levels
}

// above returns the queue of that depth that holds this one, or this one itself.
func (l *level) above(depth int) *level {
	at := l
	for at.depth > depth {
		at = at.parent
	}
	return at
}
