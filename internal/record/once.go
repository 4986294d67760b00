package record

import (
	"maps"
	"time"
)

// once decides what is news. Of each subject it remembers what was said last, and when: the same is
// not said again before its time. It is not safe for concurrent use.
type once[Subject, What comparable] struct {
	// apart is the least time between two things that are said of one subject; 0 says each that is
	// new at once.
	apart time.Duration
	// again is after which time the same is said again; 0 is never.
	again time.Duration
	last  map[Subject]*said[What]
}

// said is what was said of a subject.
type said[What comparable] struct {
	what    What
	over    bool
	at      time.Time
	repeats int // how often it was too early since
}

// say reports whether this is to be said now; and if so, how often it was too early since the last
// time.
func (o *once[Subject, What]) say(of Subject, what What, now time.Time) (repeats int, due bool) {
	wait, last := o.apart, o.last[of]
	if last != nil {
		if same := !last.over && last.what == what; same {
			wait = o.again
			if wait == 0 {
				return 0, false
			}
		}
		if now.Sub(last.at) < wait {
			last.repeats++
			return 0, false
		}
		repeats = last.repeats
	}
	if o.last == nil {
		o.last = map[Subject]*said[What]{}
	}
	o.last[of] = &said[What]{what: what, at: now}
	return repeats, true
}

// end ends what was said of a subject: the same is new then, at its time. It reports whether anything
// was said that had not ended.
func (o *once[Subject, What]) end(of Subject) bool {
	last := o.last[of]
	if last == nil || last.over {
		return false
	}
	last.over = true
	return true
}

// keep forgets all subjects but these.
func (o *once[Subject, What]) keep(these func(Subject) bool) {
	maps.DeleteFunc(o.last, func(of Subject, _ *said[What]) bool { return !these(of) })
}
