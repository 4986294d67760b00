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
	return key, first, second, meeting(a.level, b.level).path
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
