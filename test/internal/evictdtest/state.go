package evictdtest

import (
	"os"
	"path/filepath"

	"github.com/evictd/evictd/internal/state"
)

// EmptyState writes the state of an evictd that has evicted nothing, for the host whose files are
// below root, and returns its directory. A start that knows nothing of the time before waits first.
func EmptyState(dir, root string) (string, error) {
	boot, err := state.BootID(root)
	if err != nil {
		return "", err
	}
	text, err := state.Encode(struct{}{}, boot)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, state.FileName), text, 0o600)
}
