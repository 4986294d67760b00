package record

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// sayAgainAfter is how often a failure that continues is logged: a node is read up to a hundred
// times a second.
const sayAgainAfter = time.Minute

// pace keeps failures that go on from filling the log.
type pace struct {
	now      func() time.Time
	mu       sync.Mutex
	failures map[string]*failure // by what failed
}

// failure is when one kind of them was logged last, and how many since were not.
type failure struct {
	said    time.Time
	repeats int
}

// due reports whether a failure is to be logged, and how many before it were not.
func (p *pace) due(what string) (repeats int, due bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, last := p.now(), p.failures[what]
	if last == nil {
		last = &failure{}
		p.failures[what] = last
	}
	if now.Sub(last.said) < sayAgainAfter {
		last.repeats++
		return 0, false
	}
	repeats = last.repeats
	*last = failure{said: now}
	return repeats, true
}

// warnNowAndThen logs a failure about once a minute, and reports whether it did.
func (r *Recorder) warnNowAndThen(what, message string, err error, fields ...zap.Field) bool {
	repeats, due := r.pace.due(what)
	if due {
		r.logger.Warn(message, append(fields, zap.Error(err), zap.Int(keyRepeats, repeats))...)
	}
	return due
}
