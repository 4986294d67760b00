// Package kernelfiletest plants files such as the kernel's for tests, and spoils them.
package kernelfiletest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree is a directory tree: the content of files by path.
type Tree map[string]string

// Directory is the content that stands for a directory.
const Directory = "\x00directory"

// Plant writes the tree to a directory of its own and returns it.
func (t Tree) Plant(tb testing.TB) string {
	tb.Helper()
	root := tb.TempDir()
	for path, content := range t {
		Put(tb, filepath.Join(root, path), content)
	}
	return root
}

// Put replaces what is at the path.
func Put(tb testing.TB, path, content string) {
	tb.Helper()
	Remove(tb, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // as the kernel's
		tb.Fatal(err)
	}
	var err error
	if content == Directory {
		err = os.Mkdir(path, 0o755) //nolint:gosec // as the kernel's
	} else {
		err = os.WriteFile(path, []byte(content), 0o644) //nolint:gosec // as the kernel's
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// Remove removes what is at the path, with all below it; nothing there is fine. As with the kernel's, no file
// that is open can be read any more: it is empty.
func Remove(tb testing.TB, path string) {
	tb.Helper()
	err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			err = os.Truncate(name, 0)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
	if err = os.RemoveAll(path); err != nil {
		tb.Fatal(err)
	}
}

// OpenBelow returns the files below a directory that this process has open. Other files come and go.
func OpenBelow(tb testing.TB, root string) (found []string) {
	tb.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		tb.Fatal(err)
	}
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil && strings.HasPrefix(path, root+"/") {
			found = append(found, path)
		}
	}
	return found
}
