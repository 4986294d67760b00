package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/pressure"
)

// begin is when the records of the tests begin.
func begin() time.Time { return time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC) }

// end ends a frame and writes it.
func end(w *Writer) {
	w.endFrame()
	w.flush()
}

func read(t *testing.T, path string) *Record {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecordSaysWhatTheNodeWasLike writes two hours in which a threshold is met for a while and pods come and go: at
// each second the record says what the node was like, within 1 % of what pods use.
func TestRecordSaysWhatTheNodeWasLike(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n, w := newCalmNode(5), newTestWriter(t, dir, 1<<30)
	want := map[time.Time]*status.Document{}
	for second := range 4200 {
		now := begin().Add(time.Duration(second) * time.Second)
		switch second {
		case 100:
			n.pods = append(n.pods, newCalmNode(6).pods[5])
		case 3300:
			n.pods = slices.Delete(n.pods, 1, 2)
		}
		met := second > 3000 && second < 3900
		d := n.at(now, met || second%60 == 0)
		if met {
			d.Signals[0].Thresholds[0].Since = now
		}
		if second%300 == 0 || met && second%97 == 0 {
			want[now] = d
		}
		w.take(entry{at: now, document: d})
		if w.due(now) {
			end(w)
		}
	}
	end(w)
	r := read(t, dir)
	if len(r.files) != 2 {
		t.Errorf("%d files, want one an hour", len(r.files))
	}
	for now, d := range want {
		got, err := r.At(now)
		if err != nil {
			t.Fatal(err)
		}
		if *got.Signals[0].Available != *d.Signals[0].Available || !got.Signals[0].Thresholds[0].Since.Equal(d.Signals[0].Thresholds[0].Since) {
			t.Fatalf("%v: the signal is %+v, want %+v", now, got.Signals[0], d.Signals[0])
		}
		uses := map[string]int64{}
		for _, pod := range got.Pods {
			uses[pod.Key()] = pod.Usage.WorkingSet
		}
		if len(uses) != len(d.Pods) {
			t.Fatalf("%v: %d pods, want %d", now, len(uses), len(d.Pods))
		}
		for _, pod := range d.Pods {
			if !near(pod.Usage.WorkingSet, uses[pod.Key()]) {
				t.Fatalf("%v: %s uses %d, want %d", now, pod.Key(), uses[pod.Key()], pod.Usage.WorkingSet)
			}
		}
	}
	if len(r.Damaged) > 0 {
		t.Error(r.Damaged)
	}
}

// TestOldestFilesGo writes more than fits.
func TestOldestFilesGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := directory{dir, 250}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for hours := range 5 {
		if err := d.append(begin().Add(time.Duration(hours)*time.Hour), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := "2026-11-25T06.jsonl.zst 2026-11-25T07.jsonl.zst notes.txt"; err != nil || strings.Join(names, " ") != want {
		t.Errorf("%v, %v; want %s", names, err, want)
	}
}

// written writes frames of two lines of the log each, and returns the file.
func written(t *testing.T, frames int) (path string) {
	t.Helper()
	dir := t.TempDir()
	w := newTestWriter(t, dir, 1<<30)
	for i := range frames {
		for _, name := range []string{"a", "b"} {
			w.take(entry{at: begin().Add(time.Duration(i) * time.Second), text: fmt.Appendf(nil, `{"msg":"%s%d"}`, name, i)})
		}
		end(w)
	}
	return read(t, dir).files[0].path
}

// messages returns those of the log in a record, and an error.
func messages(r *Record) (all []string, err error) {
	err = r.Each(time.Time{}, func(l *Line) error {
		var line struct {
			Msg string `json:"msg"`
		}
		if l.Log != nil {
			if bad := json.Unmarshal(l.Log, &line); bad != nil {
				return bad
			}
			all = append(all, line.Msg)
		}
		return nil
	})
	return all, err
}

// TestDamageCostsItsFrame flips each byte of a file, and cuts it at each: all frames that are whole are read, and the
// damage is said.
func TestDamageCostsItsFrame(t *testing.T) {
	t.Parallel()
	path := written(t, 3)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begins := []int{0}
	for last := 0; last < len(whole); last = begins[len(begins)-1] {
		begins = append(begins, last+length(whole[last:]))
	}
	check := func(what string, data []byte, at int, intact func(frame int) bool) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var want []string
		for frame := range 3 {
			if intact(frame) {
				want = append(want, fmt.Sprint("a", frame), fmt.Sprint("b", frame))
			}
		}
		r := read(t, path)
		got, err := messages(r)
		if hurt := !slices.Contains(begins, at) || what == "flipped"; !slices.Equal(got, want) || hurt != (len(r.Damaged) > 0) || len(want) > 0 && err != nil {
			t.Fatalf("%s at %d: read %v, want %v; damaged %v, %v", what, at, got, want, r.Damaged, err)
		}
	}
	for at := range whole {
		flipped := bytes.Clone(whole)
		flipped[at] ^= 0xff
		check("flipped", flipped, at, func(frame int) bool { return at < begins[frame] || at >= begins[frame+1] })
		check("cut", whole[:max(1, at)], max(1, at), func(frame int) bool { return begins[frame+1] <= at })
		check("cut in front", whole[at:], at, func(frame int) bool { return begins[frame] >= at })
	}
}

// TestIncidentsWithGaps reads incidents whose beginning or end is lost.
func TestIncidentsWithGaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTestWriter(t, dir, 1<<30)
	for i, text := range []string{
		`{"msg":"incident ended","incident":"a","signal":"memory.available","victims":["shop/a"],"kubelet_evictions":["shop/k"]}`,
		`{"msg":"incident began","incident":"b","signal":"memory.available","since":"2026-11-25T05:00:01Z"}`,
		`{"msg":"incident began","incident":"c","signal":"memory.available","since":"2026-11-25T05:00:02Z"}`,
		`{"msg":"victim ended","victim":"shop/c","uid":"c","signal":"memory.available","reclaimed":7}`,
	} {
		w.take(entry{at: begin().Add(time.Duration(i) * time.Second), text: []byte(text)})
	}
	end(w)
	all, err := read(t, dir).Incidents(time.Time{})
	var got []string
	for _, i := range all {
		got = append(got, fmt.Sprint(i.ID, " ", i.How(), " ", i.Evicted, i.Kubelet, i.Reclaimed))
	}
	want := []string{"a after evictions [shop/a] [shop/k] 0", "b by itself [] [] 0", "c open [shop/c] [] 7"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %q, want %q", err, got, want)
	}
}

// TestNothingOfThatTime asks for what is behind the end of a record, a part of which is damaged.
func TestNothingOfThatTime(t *testing.T) {
	t.Parallel()
	path := written(t, 3)
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, whole[:len(whole)-1], 0o600)
	}
	r := read(t, path)
	if err == nil {
		err = r.Each(begin().Add(time.Hour), func(*Line) error { return nil })
	}
	if err != nil || len(r.Damaged) != 1 {
		t.Errorf("%v, damaged %v", err, r.Damaged)
	}
	if err := r.Export(io.Discard, begin().Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "nothing of that time") {
		t.Error(err)
	}
}

// TestOtherFiles names files that are no records of this evictd.
func TestOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	w := newTestWriter(t, t.TempDir(), 1)
	w.take(entry{at: begin(), text: []byte(`{"msg":"?"}`)})
	w.add(&Line{Version: Version + 1})
	if err := w.encoder.Close(); err != nil {
		t.Fatal(err)
	}
	for want, text := range map[string]string{
		"has version 2, and this evictd reads version 1":         w.text.String(),
		"nothing of it can be read: " + path + " has 5 damaged ": "hello",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := messages(read(t, path)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
	if _, err := Open(path + "-absent"); err == nil || !strings.Contains(err.Error(), "there is no record at "+path+"-absent") {
		t.Error(err)
	}
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "there is no record in ") {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(magic + magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := read(t, path)
		if got, err := messages(r); len(data) > 0 && len(got) == 0 && err == nil && len(r.Damaged) == 0 && !bytes.Contains(data, []byte(magic)) {
			t.Error("nothing was read, and nothing said")
		}
	})
}

// TestShortDisk meets a threshold of the record's own disk: frames wait in memory, the newest of them are written once
// the disk has room, and the others are said to be lost.
func TestShortDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTestWriter(t, dir, 1<<30)
	n := newCalmNode(1)
	say := func(second int, short bool, text string) {
		now := begin().Add(time.Duration(second) * time.Second)
		d := n.at(now, true)
		d.Signals[2].Device = w.device
		if short {
			d.Signals[2].Thresholds[0].Since = now
		}
		w.take(entry{at: now, document: d})
		w.take(entry{at: now, text: []byte(text)})
		end(w)
	}
	noise := make([]byte, 60<<10)
	for i := range noise {
		noise[i] = "0123456789abcdef"[n.random.IntN(16)]
	}
	say(0, true, `{"msg":"first"}`)
	for i := range 30 {
		n.random.Shuffle(len(noise), func(i, j int) { noise[i], noise[j] = noise[j], noise[i] })
		say(1+i, true, `{"msg":"noise","noise":"`+string(noise)+`"}`)
	}
	if files, err := w.dir.files(); len(files) > 0 || err != nil {
		t.Errorf("files were written to a short disk: %v, %v", files, err)
	}
	say(41, false, `{"msg":"last"}`)
	r := read(t, dir)
	got, err := messages(r)
	if err != nil || slices.Contains(got, "first") || got[0] != "noise" || got[len(got)-1] != "last" {
		t.Errorf("%v, %v", got, err)
	}
	// Each frame has a document, what has changed and a line of the log, and each that tells of others one line more.
	if missing, lost := 1+30+1-len(got), lostOf(t, r); missing < 20 || lost < 3*(missing-1) || lost > 4*missing {
		t.Errorf("%d lines are said to be lost, and %d frames are missing", lost, missing)
	}
}

// TestMain is the child of other tests too.
func TestMain(m *testing.M) {
	if dir := os.Getenv("HISTORY_DIR"); dir != "" {
		if err := writeWithoutEnd(dir, os.Getenv("HISTORY_LIMIT")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is a process that writes to a record without end, or to a disk that takes so many bytes of a file.
func child(dir, limit string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HISTORY_DIR="+dir, "HISTORY_LIMIT="+limit)
	cmd.Stderr = os.Stderr
	return cmd
}

// writeWithoutEnd prints a byte for each frame that it has written, and ends once it could not write one.
func writeWithoutEnd(dir, limit string) error {
	if limit != "" {
		signal.Ignore(syscall.SIGXFSZ)
		most, err := strconv.ParseUint(limit, 10, 64)
		if err == nil {
			err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: most, Max: most})
		}
		if err != nil {
			return err
		}
	}
	failed := false
	w, err := NewWriter(dir, Options{Now: time.Now, MaxSize: 1 << 30, Complete: complete, Failed: func(error) { failed = true }})
	n := newCalmNode(20)
	for i := 0; err == nil && !failed; i++ {
		now := begin().Add(time.Duration(i) * time.Second)
		w.take(entry{at: now, document: n.at(now, true)})
		w.take(entry{at: now, text: fmt.Appendf(nil, `{"msg":"%d"}`, i)})
		end(w)
		_, err = fmt.Print(".")
	}
	return err
}

// TestKilledWhileItWrites kills a process 200 times while it writes, behind one frame to eight: all that was written by any
// of them is read, but for one frame each.
func TestKilledWhileItWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const kills = 200
	for i := range kills {
		cmd := child(dir, "")
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, 1+i%8)); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
	r := read(t, dir)
	got, err := messages(r)
	first, last := 0, 0
	for i, m := range got {
		n, bad := strconv.Atoi(m)
		if n == 0 {
			first++
		} else if bad != nil || n != last+1 {
			t.Fatalf("message %d is %s, the one before %d", i, m, last)
		}
		last = n
	}
	if err != nil || first != kills || len(r.Damaged) > kills {
		t.Errorf("%d processes are read, %d frames damaged, %v", first, len(r.Damaged), err)
	}
}

// TestFullDisk writes to a disk that takes a part of a frame: what was written before is read, and no part of another.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := child(dir, "10000").Run(); err != nil {
		t.Fatal(err)
	}
	r := read(t, dir)
	got, err := messages(r)
	if err != nil || len(got) == 0 || len(r.Damaged) > 0 {
		t.Errorf("%d lines were read, damaged %v, %v", len(got), r.Damaged, err)
	}
}

// TestWritingNeverWaits fills the queue of a writer that does not run, and then lets it run: what did not fit is
// counted.
func TestWritingNeverWaits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTestWriter(t, dir, 1<<30)
	for i := range queued + 7 {
		if _, err := fmt.Fprintf(w, `{"msg":"%d"}`, i); err != nil {
			t.Fatal(err)
		}
	}
	w.Document(newCalmNode(1).at(begin(), true))
	w.Start()()
	if lost := lostOf(t, read(t, dir)); lost != 8 {
		t.Errorf("%d lines are said to be lost, want 8", lost)
	}
}

// lostOf returns how many lines a record says that are lost.
func lostOf(t *testing.T, r *Record) (lost int) {
	t.Helper()
	if err := r.Each(time.Time{}, func(l *Line) error {
		lost += l.Lost
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return lost
}

// TestExport exports the last part of a record: it is a record, and has no frame of before.
func TestExport(t *testing.T) {
	t.Parallel()
	path := written(t, 10)
	var out bytes.Buffer
	if err := read(t, path).Export(&out, begin().Add(7*time.Second)); err != nil {
		t.Fatal(err)
	}
	exported := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(exported, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := messages(read(t, exported)); err != nil || strings.Join(got, " ") != "a7 b7 a8 b8 a9 b9" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAtATimeWithoutRecord asks for a time before, between and behind what was written.
func TestAtATimeWithoutRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := newTestWriter(t, dir, 1<<30)
	for _, after := range []time.Duration{0, time.Hour} {
		w.take(entry{at: begin().Add(after), document: newCalmNode(1).at(begin().Add(after), true)})
		end(w)
	}
	for after, want := range map[time.Duration]string{
		-time.Minute: "did not run", time.Minute: "", 30 * time.Minute: "did not run", time.Hour: "", 2 * time.Hour: "did not run",
	} {
		d, err := read(t, dir).At(begin().Add(after))
		if want == "" && (err != nil || d.Signals[0].Name != pressure.MemoryAvailable) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("after %v: %v, want %q", after, err, want)
		}
	}
	if err := read(t, dir).Each(time.Time{}, func(*Line) error { return errFound }); !errors.Is(err, errFound) {
		t.Error(err)
	}
}

// TestRecordOfAnotherEvictd reads a document with a field that is not known, and without one that is: an update of evictd
// makes no record unreadable.
func TestRecordOfAnotherEvictd(t *testing.T) {
	t.Parallel()
	w := newTestWriter(t, t.TempDir(), 1)
	d := newCalmNode(1).at(begin(), true)
	complete(d)
	text := bytes.Replace(w.marshal(d), []byte(`"gracePeriodSeconds":30`), []byte(`"unheardOf":30`), 1)
	var s State
	if err := s.Take(&Line{Version: Version, Node: text}); err != nil || len(s.Node.Pods) != 1 || s.Node.Configuration.EvictionHard == nil {
		t.Errorf("%+v, %v", s.Node, err)
	}
}
