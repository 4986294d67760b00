package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/testing/must"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

const thisBoot = "boot"

// note is what a test keeps.
type note struct {
	Text string    `json:"text,omitempty"`
	At   time.Time `json:"at,omitzero"`
}

func aNote() note { return note{"kept", noon()} }

// saved saves a state and returns once the writer has ended: on a slow machine Save does not wait for it.
func saved(s *Store, state any) {
	s.Save(state)()
	for ended := false; !ended; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		ended = s.done == nil
		s.mu.Unlock()
	}
}

// loaded returns what is in a directory.
func loaded(t *testing.T, dir string) (got note) {
	t.Helper()
	must.Succeed(t, Load(dir, thisBoot, &got))
	return got
}

func TestWhatIsNotUsedAndWhy(t *testing.T) {
	t.Parallel()
	text, err := Encode(aNote(), thisBoot)
	must.Succeed(t, err)
	whole := string(text)
	replaced := func(old, by string) string { return strings.Replace(whole, old, by, 1) }
	for name, test := range map[string]struct {
		text, own string
		want      string // in the error; "" is none
	}{
		"empty":                     {"", thisBoot, "decoding the state file: "},
		"cut":                       {whole[:len(whole)/2], thisBoot, "decoding the state file: "},
		"cut at its last character": {whole[:len(whole)-1], thisBoot, "decoding the state file: "},
		"more after it":             {whole + "{}", thisBoot, "decoding the state file: "},
		"an unknown field":          {replaced(`"bootID"`, `"color":1,"bootID"`), thisBoot, `unknown field "color"`},
		"an unknown field inside":   {replaced(`"at"`, `"color":1,"at"`), thisBoot, `unknown field "color"`},
		"a field twice":             {replaced(`"bootID"`, `"bootID":"boot","bootID"`), thisBoot, `duplicate field "bootID"`},
		"another case":              {replaced(`"bootID"`, `"bootid"`), thisBoot, `unknown field "bootid"`},
		"another version":           {replaced(`"version":4`, `"version":3,"more":1`), thisBoot, "it has version 3, and this evictd reads version 4"},
		"no version":                {replaced(`"version":4,`, ""), thisBoot, "it has version 0"},
		"another boot":              {whole, "another", `it is of boot "boot", and this is "another"`},
		"nothing as its state":      {`{"bootID":"boot","version":4}`, thisBoot, "decoding the state file: "},
		"as it was":                 {whole, thisBoot, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(dir, FileName), []byte(test.text), 0o600))
			refused(t, Load(dir, test.own, &note{}), test.want)
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		if err := Load(t.TempDir(), thisBoot, &note{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v, want that it is not there", err)
		}
	})
	t.Run("a directory", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		must.Succeed(t, os.Mkdir(filepath.Join(dir, FileName), 0o700))
		refused(t, Load(dir, thisBoot, &note{}), "reading the state file: ")
	})
}

// refused fails the test unless an error says this; "" wants none.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func TestAStateThatIsTooLargeIsNotWritten(t *testing.T) {
	t.Parallel()
	if _, err := Encode(note{Text: strings.Repeat("o", MaxSize)}, thisBoot); err == nil || !strings.Contains(err.Error(), "are kept at most") {
		t.Errorf("%v, want that it is too large", err)
	}
}

// TestAWriteThatHangsHoldsNothingUp: a state that is handed over while a write hangs is waited for a
// moment alone, and the newest state is written once the write continues.
func TestAWriteThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, FileName+".new")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil { // opening it hangs until there is a reader
		t.Fatal(err)
	}
	failures := make(chan error, 10)
	s := NewStore(dir, thisBoot, func(err error) { failures <- err })
	s.Save(note{})()
	if got := <-failures; got.Error() != "it takes longer than 50ms" {
		t.Errorf("the failure is %v, want that it is slow", got)
	}
	for _, text := range []string{"a", "b", "newest"} {
		s.Save(note{Text: text})()
	}
	reader, err := os.Open(pipe)
	must.Succeed(t, err)
	defer func() { _ = reader.Close() }()
	_, _ = reader.Read(make([]byte, 1<<16))
	for { // the pipe is renamed, and then a file takes its place
		if info, err := os.Stat(filepath.Join(dir, FileName)); err == nil && info.Mode().IsRegular() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := loaded(t, dir); got.Text != "newest" {
		t.Errorf("written: %+v, want the newest state", got)
	}
}

func TestAWriteThatFailsIsTold(t *testing.T) {
	t.Parallel()
	failures := make(chan error, 10)
	s := NewStore(filepath.Join(t.TempDir(), "missing"), thisBoot, func(err error) {
		if errors.Is(err, os.ErrNotExist) {
			failures <- err
		}
	})
	s.Save(aNote())()
	<-failures
	s.Save(aNote())() // the same state again: the file does not have it
	<-failures
}

func TestWhatIsSavedIsLoadedAndTheSameStateIsWrittenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := NewStore(dir, thisBoot, func(err error) {
		if !strings.Contains(err.Error(), "longer than") {
			t.Error(err)
		}
	})
	saved(s, aNote())
	if diff := cmp.Diff(aNote(), loaded(t, dir)); diff != "" {
		t.Errorf("(-saved +loaded):\n%s", diff)
	}
	must.Succeed(t, os.Remove(filepath.Join(dir, FileName)))
	saved(s, aNote())
	if _, err := os.Stat(filepath.Join(dir, FileName)); err == nil {
		t.Error("a state that is in the file was written again")
	}
	saved(s, note{})
	if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
		t.Error("a state that had changed was not written")
	}
}

func TestBootID(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if _, err := BootID(root); err == nil {
		t.Error("a boot ID without a file")
	}
	dir := filepath.Join(root, "proc/sys/kernel/random")
	must.Succeed(t, os.MkdirAll(dir, 0o700))
	for text, want := range map[string]string{"4f9c\n": "4f9c", "\n": ""} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "boot_id"), []byte(text), 0o600))
		if got, err := BootID(root); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// A directory is tried beside the file of a process that runs, and nothing is left of it.
func TestTry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := filepath.Join(dir, FileName)
	must.Succeed(t, os.WriteFile(kept, []byte("kept"), 0o600))
	if err := Try(dir); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(kept)
	if err != nil || string(text) != "kept" {
		t.Errorf("the state file: %q, %v", text, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
	for name, dir := range map[string]string{"a file": kept, "nothing": filepath.Join(dir, "absent")} {
		if err := Try(dir); err == nil {
			t.Errorf("%s can be written to", name)
		}
	}
}

// The wall clock of a test cannot be set: that it does not count is that both times have a monotonic
// reading, by which package time compares then.
func TestTime(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, test := range []struct{ at, ahead, want time.Duration }{
		{-time.Hour, 0, -time.Hour},
		{time.Hour, 0, 0},
		{time.Hour, time.Minute, time.Minute},
		{time.Second, time.Minute, time.Second},
	} {
		read := now.Add(test.at).Round(0) // as from a file
		got := Restored(read, now, test.ahead)
		if got.Sub(now) != test.want || !strings.Contains(got.String(), " m=") {
			t.Errorf("%v, at most %v ahead: %v, want %v from now with a monotonic reading", test.at, test.ahead, got, test.want)
		}
	}
	if !Restored(time.Time{}, now, 0).IsZero() {
		t.Error("the zero time became another")
	}
}
