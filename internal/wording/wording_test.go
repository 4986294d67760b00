package wording_test

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/wording"
)

// A text is cut between two characters, and stays as it is where it is short enough.
func TestShorten(t *testing.T) {
	t.Parallel()
	if got := wording.Shorten("ééé", 6); got != "ééé" {
		t.Errorf("%q is short enough", got)
	}
	if got := wording.Shorten(strings.Repeat("é", 200), 200); got != strings.Repeat("é", 98)+"..." {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
