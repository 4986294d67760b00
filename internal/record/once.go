package record

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// subject is what something is said of: a thing, of one signal where each signal has its own.
type subject struct {
	thing  string
	signal pressure.Signal
}

// once decides what is news: of each subject it remembers what was said last, and when. It is not safe for
// concurrent use.
type once map[subject]said

type said struct {
	what string
	at   time.Time
}

// say reports whether this is to be said of a subject now. What was said last is said again after a time.
func (o once) say(of subject, what string, now time.Time, again time.Duration) bool {
	last, is := o[of]
	if is && last.what == what && now.Sub(last.at) < again {
		return false
	}
	o[of] = said{what, now}
	return true
}
