package record_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is not known has no series: 0 says that evictd is not confined.
func TestConfinedIsShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const name = "evictd_confined"
	expect(t, r, name)
	for confined, want := range map[bool]float64{false: 0, true: 1} {
		r.Confined(confined)
		if got := value(t, r, name); got != want {
			t.Errorf("confined %v: %s = %v, want %v", confined, name, got, want)
		}
	}
}

// A check that is not ok is one line of constant text, with each of its parts in a field.
func TestCheckIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Check("state-dir", "missing", "no such directory", "limits begin anew", "mount a volume")
	want := map[string]any{
		"level": "warn", "msg": "a check is not ok", "check": "state-dir", "state": "missing", "detail": "no such directory",
		"follows": "limits begin anew", "do": "mount a volume",
	}
	lines := r.lines(t)
	if len(lines) != 1 {
		t.Fatalf("lines %v", lines)
	}
	delete(lines[0], "ts")
	if diff := cmp.Diff(want, lines[0]); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}
