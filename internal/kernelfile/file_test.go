package kernelfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// write puts a file down and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pids.current")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// text takes the whole content.
func text(content []byte) (string, error) { return string(content), nil }

// TestFileNumber: a file that fails says what and where; it gives no number then.
func TestFileNumber(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		want    int64
		wantErr error
	}{
		"a number":         {content: "32768\n", want: 32768},
		"empty":            {content: "", wantErr: ErrEmpty},
		"larger than fits": {content: strings.Repeat("1", 16), wantErr: ErrTooLarge},
		"max":              {content: "max\n", wantErr: ErrNoNumber},
		"cut off":          {content: "327", wantErr: ErrTruncated},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := File{Path: write(t, tc.content)}
			defer file.Close()
			got, err := Parse(&file, make([]byte, 16), Number)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("Parse() = %d, %v; want %d, %v", got, err, tc.want, tc.wantErr)
			}
			if err != nil && !strings.Contains(err.Error(), file.Path) {
				t.Errorf("the error %q does not say which file", err)
			}
		})
	}
}

// TestFileFaults: what cannot be opened or read at all.
func TestFileFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		fifo:                          unix.ESPIPE,
		dir:                           unix.EISDIR,
		filepath.Join(dir, "no file"): unix.ENOENT,
	} {
		file := File{Path: path}
		if content, err := Parse(&file, make([]byte, 16), text); content != "" || !errors.Is(err, want) {
			t.Errorf("Parse() of %s = %q, %v; want %v", path, content, err, want)
		}
		if file.open {
			t.Errorf("%s stays open after its fault", path)
		}
	}
}

// TestFileSeesChanges: a file that stays open is read from its start each time, as
// the kernel renders it anew.
func TestFileSeesChanges(t *testing.T) {
	t.Parallel()
	path := write(t, "1\n")
	file := File{Path: path}
	defer file.Close()
	for _, want := range []string{"1\n", "22\n", "3\n"} {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := Parse(&file, make([]byte, 16), text); err != nil || got != want {
			t.Errorf("Parse() = %q, %v; want %q", got, err, want)
		}
	}
}

// TestFileOpensAgain: a file that is open and fails is opened by its name at once,
// so a mount that was made anew costs no reading.
func TestFileOpensAgain(t *testing.T) {
	t.Parallel()
	file := File{Path: write(t, "7\n")}
	defer file.Close()
	if _, err := Parse(&file, make([]byte, 16), text); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Dup3(int(dir.Fd()), file.fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if got, err := Parse(&file, make([]byte, 16), Number); err != nil || got != 7 {
		t.Errorf("Parse() = %d, %v", got, err)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	file := File{Path: write(t, "7\n")}
	defer file.Close()
	buffer := make([]byte, 16)
	var fault error
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := Parse(&file, buffer, Number); err != nil {
			fault = err
		}
	})
	if fault != nil || allocations != 0 {
		t.Errorf("%v allocations, %v", allocations, fault)
	}
}
