package api

import (
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

func TestMain(m *testing.M) { os.Exit(evictdtest.Main(m)) }

// expect fails the test unless the result has the outcome and its message contains every
// fragment.
func expect(t *testing.T, got evict.Result, want evict.Outcome, fragments ...string) {
	t.Helper()
	t.Logf("the API server's answer: %s: %s", got.Outcome, got.Message)
	if got.Outcome != want {
		t.Fatalf("outcome %s, want %s: %s", got.Outcome, want, got.Message)
	}
	for _, f := range fragments {
		if !strings.Contains(got.Message, f) {
			t.Errorf("message %q lacks %q", got.Message, f)
		}
	}
}
