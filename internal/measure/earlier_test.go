package measure

import (
	"testing"
	"time"
)

// What was read 5 to 60 s ago counts, whatever was read since; what has grown in longer than 10 s counts in part.
func TestEarlier(t *testing.T) {
	t.Parallel()
	var e earlier[string]
	at := func(seconds int) time.Time { return time.Date(2026, 3, 1, 12, 0, seconds, 0, time.UTC) }
	for _, step := range []struct {
		at   int
		read string
		want string
		part float64
	}{
		{0, "first", "", 0},
		{4, "too soon", "", 0},
		{5, "second", "first", 1},
		{8, "too soon", "first", 1},
		{15, "", "second", 1},
		{25, "", "second", 0.5},
		{40, "third", "second", 10. / 35},
		{44, "", "second", 10. / 39},
		{45, "", "third", 1},
		{101, "", "", 0},
	} {
		if step.read != "" {
			e.note(at(step.at), func() string { return step.read })
		}
		if read, part := e.before(at(step.at)); read != step.want || part != step.part {
			t.Errorf("after %d s: %q, of which %v counts, want %q and %v", step.at, read, part, step.want, step.part)
		}
	}
}
