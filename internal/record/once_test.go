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
	o, now, of := once{}, time.Unix(1, 0), subject{thing: "x"}
	for i, s := range []step{
		{0, "a", true},
		{AgainAfter - 1, "a", false},
		{0, "b", true},
		{AgainAfter - 1, "b", false},
		{1, "b", true},
		{0, "", false},
		{0, "b", true},
	} {
		if now = now.Add(s.after); s.what == "" {
			delete(o, of)
		} else if due := o.say(of, s.what, now); due != s.due {
			t.Errorf("step %d: due %t, want %t", i, due, s.due)
		}
	}
	if !o.say(subject{"x", 1}, "a", now) {
		t.Error("another subject is not said")
	}
}
