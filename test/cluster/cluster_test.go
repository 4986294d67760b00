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

// An address is that of its caller also before a process listens there.
func TestAddressOfAnotherCallerIsNotFree(t *testing.T) {
	address, err := FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := free(t.Context(), 1, func(int) []string { return []string{address} }); err == nil {
		t.Errorf("%s is free again", again)
	}
}
