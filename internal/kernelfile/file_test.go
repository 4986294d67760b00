package kernelfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/internal/testing/must"
)

// TestFileFaults: a file that fails says what and where; it gives no number then. One that cannot be read is closed.
func TestFileFaults(t *testing.T) {
	t.Parallel()
	dir := kernelfiletest.Tree{
		"number": "32768\n", "empty": "", "too large": strings.Repeat("1", 16), "max": "max\n", "directory": kernelfiletest.Directory,
	}.Plant(t)
	must.Succeed(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for name, test := range map[string]struct {
		want    int64
		wantErr error
		open    bool
	}{
		"number":    {want: 32768, open: true},
		"max":       {wantErr: ErrNoNumber, open: true},
		"empty":     {wantErr: ErrEmpty},
		"too large": {wantErr: ErrTooLarge},
		"fifo":      {wantErr: unix.ESPIPE},
		"directory": {wantErr: unix.EISDIR},
		"no file":   {wantErr: unix.ENOENT},
	} {
		file := File{Path: filepath.Join(dir, name)}
		got, err := Parse(&file, make([]byte, 16), Number)
		if got != test.want || !errors.Is(err, test.wantErr) || err != nil && !strings.Contains(err.Error(), file.Path) {
			t.Errorf("%s: %d, %v; want %d, %v of that file", name, got, err, test.want, test.wantErr)
		}
		if file.open != test.open {
			t.Errorf("%s: it is open: %t", name, file.open)
		}
		file.Close()
	}
}

// TestFileStaysOpen: it is read from its start each time, as the kernel renders it anew. One that is open and fails is
// opened by its name at once, so a mount that was made anew costs no reading.
func TestFileStaysOpen(t *testing.T) {
	t.Parallel()
	dir := kernelfiletest.Tree{"pids.current": ""}.Plant(t)
	file := File{Path: filepath.Join(dir, "pids.current")}
	defer file.Close()
	reads := func(want int64) {
		t.Helper()
		if got, err := Parse(&file, make([]byte, 16), Number); err != nil || got != want {
			t.Errorf("Parse() = %d, %v; want %d", got, err, want)
		}
	}
	for _, want := range []int64{1, 22, 3} {
		must.Succeed(t, os.WriteFile(file.Path, fmt.Append(nil, want, "\n"), 0o600))
		reads(want)
	}
	directory, err := os.Open(dir)
	must.Succeed(t, err)
	defer directory.Close()
	must.Succeed(t, unix.Dup3(int(directory.Fd()), file.fd, unix.O_CLOEXEC))
	reads(3)
}
