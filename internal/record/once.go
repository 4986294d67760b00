package record

import (
	"maps"
	"time"
)

// pace says when a thing is said of a subject again. Apart is the least time between two; 0 says each that is
// new at once. After again the same is said again; 0 is never.
type pace struct{ apart, again time.Duration }

// once decides what is news. Of each subject it remembers what was said last, and when: the same is
// not said again before its time. It is not safe for concurrent use.
type once map[any]*said

// said is what was said of a subject.
type said struct {
	what    string
	over    bool
	at      time.Time
	repeats int // how often it was too early since
}

// say reports whether this is to be said now; and if so, how often it was too early since the last
// time.
func (o once) say(of any, what string, now time.Time, p pace) (repeats int, due bool) {
	if last := o[of]; last != nil {
		wait := p.apart
		if same := !last.over && last.what == what; same {
			wait = p.again
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
	o[of] = &said{what: what, at: now}
	return repeats, true
}

// end ends what was said of a subject: the same is new then, at its time. It reports whether anything
// was said that had not ended.
func (o once) end(of any) bool {
	last := o[of]
	if last == nil || last.over {
		return false
	}
	last.over = true
	return true
}

// keep forgets all subjects but these.
func (o once) keep(these func(of any) bool) {
	maps.DeleteFunc(o, func(of any, _ *said) bool { return !these(of) })
}
