package record

import (
	"testing"
	"time"
)

// Each step says something of one subject, "" that it is over, and expects whether it is to be said
// and how often it was too early before.
func TestOnce(t *testing.T) {
	t.Parallel()
	type step struct {
		after   time.Duration
		what    string
		due     bool
		repeats int
	}
	for name, test := range map[string]struct {
		pace  pace
		steps []step
	}{
		"a change": {pace{0, 0}, []step{{0, "a", true, 0}, {time.Hour, "a", false, 0}, {0, "b", true, 0}, {0, "a", true, 0}, {0, "", true, 0}, {0, "", false, 0}, {0, "a", true, 0}}},
		"now and then": {pace{time.Minute, time.Minute}, []step{
			{0, "a", true, 0}, {time.Second, "a", false, 0}, {time.Second, "b", false, 0}, {time.Minute, "a", true, 2}, {time.Minute, "a", true, 0},
		}},
		"a change, now and then": {pace{time.Minute, 0}, []step{
			{0, "a", true, 0},
			{time.Second, "b", false, 0},
			{time.Second, "a", false, 0},
			{time.Minute, "a", false, 0},
			{0, "b", true, 1},
			{time.Second, "", true, 0},
			{0, "b", false, 0},
			{0, "", false, 0},
			{time.Minute, "b", true, 1},
		}},
		"a change, and the same after a while": {pace{0, 30 * time.Second}, []step{
			{0, "a", true, 0}, {time.Second, "b", true, 0}, {29 * time.Second, "b", false, 0}, {time.Second, "b", true, 1}, {0, "", true, 0}, {0, "b", true, 0},
		}},
	} {
		o, now := once{}, time.Unix(1, 0)
		for i, s := range test.steps {
			now = now.Add(s.after)
			var repeats int
			var due bool
			if s.what == "" {
				due = o.end(7)
			} else {
				repeats, due = o.say(7, s.what, now, test.pace)
			}
			if due != s.due || repeats != s.repeats {
				t.Errorf("%s, step %d: due %t after %d, want %t after %d", name, i, due, repeats, s.due, s.repeats)
			}
		}
		if _, due := o.say(8, "a", now, test.pace); !due {
			t.Errorf("%s: another subject is not said", name)
		}
		o.keep(func(of any) bool { return of == 8 })
		if _, due := o.say(7, test.steps[len(test.steps)-1].what, now, test.pace); !due {
			t.Errorf("%s: a forgotten subject is not said", name)
		}
		if _, due := o.say(8, "a", now, test.pace); due {
			t.Errorf("%s: the other subject is forgotten too", name)
		}
	}
}
