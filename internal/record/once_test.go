package record

import (
	"testing"
	"time"
)

// Each step says something of one subject, "" that it is over, and expects whether it is to be said.
func TestOnce(t *testing.T) {
	t.Parallel()
	type step struct {
		after time.Duration
		what  string
		due   bool
	}
	for again, steps := range map[time.Duration][]step{
		0:           {{0, "a", true}, {time.Hour, "a", false}, {0, "b", true}, {0, "a", true}, {0, "", false}, {0, "a", true}},
		time.Minute: {{0, "a", true}, {59 * time.Second, "a", false}, {0, "b", true}, {59 * time.Second, "b", false}, {time.Second, "b", true}},
	} {
		o, now, of := once{}, time.Unix(1, 0), subject{thing: "x"}
		for i, s := range steps {
			if now = now.Add(s.after); s.what == "" {
				delete(o, of)
			} else if due := o.say(of, s.what, now, again); due != s.due {
				t.Errorf("again after %v, step %d: due %t, want %t", again, i, due, s.due)
			}
		}
		if !o.say(subject{"x", 1}, "a", now, again) {
			t.Errorf("again after %v: another subject is not said", again)
		}
	}
}
