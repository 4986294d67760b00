package scenario_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/evictd/evictd/internal/scenario"
	"github.com/evictd/evictd/internal/testing/golden"
)

var update = flag.Bool("update", false, "rewrite the golden file")

// What is wrong with a scenario's file is said with its line and the field's path, a line for each fault.
func TestFaultsOfAFile(t *testing.T) {
	t.Parallel()
	golden.Sections(t, "testdata/faults.txt", *update, "go test ./internal/scenario -update", func(_, content string) []string {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := scenario.Load(path)
		invalid, is := errors.AsType[utilerrors.Aggregate](err)
		if !is {
			t.Fatalf("%v is no list of faults of:\n%s", err, content)
		}
		var said []string
		for _, fault := range invalid.Errors() {
			said = append(said, strings.TrimPrefix(fault.Error(), filepath.Dir(path)+"/"))
		}
		return said
	})
}

func TestNoFile(t *testing.T) {
	t.Parallel()
	if _, err := scenario.Load("/none.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
