package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Everything in the folder of a cluster is deleted when it stops.
func TestFolderOfAnotherIsLeftAlone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "thesis.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := emptyFolder(filepath.Dir(file))
	if _, missing := os.Stat(file); missing != nil || err == nil || !strings.Contains(err.Error(), "thesis.txt") {
		t.Errorf("error %v does not name the file: %v", err, missing)
	}
}
