package rank

import (
	"fmt"
	"strconv"
)

// Why returns one sentence: the pod's usage, request and priority, and the reason for its
// position.
func (e *Entry) Why() string {
	if e.Protection != NotProtected {
		return "protected: " + string(e.Protection) + e.further()
	}
	text := e.Facts()
	if e.Before != KeyNone {
		text += "; ahead of the next by: " + e.Before.String()
	}
	return text + e.further()
}

// Facts returns the pod's usage, request and priority, of a protected pod too.
func (e *Entry) Facts() string {
	used := "an unknown amount"
	if e.Pod.Sampled {
		used = e.amount(e.Pod.Usage)
	}
	text := fmt.Sprintf("uses %s, requests %s", used, e.amount(e.Pod.Request))
	if e.Exceeds {
		text += ", " + e.amount(e.Over) + " over"
	}
	text += "; priority " + strconv.FormatInt(int64(e.Pod.Priority), 10)
	if effective := e.EffectivePriority(); effective != e.Pod.Priority {
		text += fmt.Sprintf(", counts as %d by queue %s", effective, e.Queue())
	}
	return text
}

// further returns the detail as an additional clause.
func (e *Entry) further() string {
	if e.Detail == "" {
		return ""
	}
	return "; " + e.Detail
}

func (e *Entry) amount(n int64) string {
	if e.Resource == Memory || e.Resource == Disk {
		return Bytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// Bytes returns n with a binary unit and one decimal: people read 1.5Gi faster than
// 1610612736. Do not use it for figures that machines read.
func Bytes(n int64) string {
	const unit = 1024
	size, prefix := float64(n), ""
	for _, p := range []string{"Ki", "Mi", "Gi", "Ti", "Pi"} {
		if size < unit && size > -unit {
			break
		}
		size, prefix = size/unit, p
	}
	if prefix == "" {
		return strconv.FormatInt(n, 10)
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + prefix
}
