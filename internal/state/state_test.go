package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func thisBoot() Identity { return Identity{BootID: "boot", NodeUID: "node"} }

// random returns a state with so many entries in each section at most.
func random(r *rand.Rand, most int) State {
	when := func() time.Time { return noon().Add(time.Duration(r.Int64N(int64(time.Hour)))) }
	text := func(kind string) string { return fmt.Sprintf("%s-%d", kind, r.IntN(1000)) }
	amounts := func() pressure.Amounts {
		return pressure.Amounts{}.With(pressure.MemoryAvailable, r.Int64()).With(pressure.NodeFSAvailable, r.Int64N(1<<40))
	}
	refusals := func() (all []cooldown.RefusalState) {
		for range r.IntN(most + 1) {
			all = append(all, cooldown.RefusalState{
				UID: text("pod"), Namespace: "shop", Name: text("budget"), Refusals: r.IntN(9), Until: when(), Trusted: when(),
				Last: evict.Outcomes()[r.IntN(len(evict.Outcomes()))], InDoubt: r.IntN(3), InDoubtSince: when(), Expires: when(),
			})
		}
		return all
	}
	s := State{Cooldown: cooldown.State{Backoff: cooldown.BackoffState{Pods: refusals(), Budgets: refusals()}}}
	if server := refusals(); len(server) > 0 {
		s.Cooldown.Backoff.Server = &server[0]
	}
	for range r.IntN(most + 1) {
		s.Incidents = append(s.Incidents, incident.State{Expires: when(), Incident: incident.Incident{
			ID: text("memory.available"), Resource: decide.Resource{Kind: pressure.SpaceKind, Device: r.Uint64()},
			Signal: pressure.NodeFSAvailable, Also: []pressure.Signal{pressure.ImageFSAvailable}, Began: when(), Short: when(), Lowest: r.Int64(),
			Victims: []incident.Victim{{Pod: "shop/" + text("pod"), UID: text("uid"), DryRun: r.IntN(2) == 0}}, More: r.IntN(9),
			Before: incident.Others{OOMKills: r.Int64(), Kubelets: []string{text("uid")}},
		}})
		s.InFlight.LastEnd = when()
		s.InFlight.Victims = append(s.InFlight.Victims, decide.Victim{
			Namespace: "shop", Name: text("name"), UID: text("pod"), Phase: decide.Terminating, Expected: amounts(), Before: amounts(), Signal: "memory.available",
			Accepted: when(), Deadline: when(), GraceSeconds: r.Int64(), DryRun: r.IntN(2) == 0,
		}, *(&decide.InDoubt{
			Attempt: decide.Attempt{
				Entry:        rank.Entry{Pod: &rank.Pod{Namespace: "shop", Name: text("name"), UID: text("pod"), OwnerUID: text("owner"), Created: when()}},
				GraceSeconds: new(r.Int64N(60)), Result: evict.Result{Outcome: evict.Unconfirmed, Sent: when()},
			},
			Expected: amounts(), First: when(), Pressure: pressure.Pressure{
				Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable, Hard: true}, Line: r.Int64(), Since: when(),
				Observed: pressure.Observation{State: pressure.Known, Available: r.Int64(), Device: r.Uint64()},
			},
		}).Victim())
		s.Cooldown.Limits = append(s.Cooldown.Limits, cooldown.CountedState{Owner: text("owner"), At: when(), Expires: when()})
	}
	return s
}

// same compares states; a list without entries is no list.
func same() cmp.Option {
	return cmp.Options{
		cmpopts.EquateEmpty(), cmpopts.EquateComparable(pressure.Amounts{}, pressure.Quantity{}), cmpopts.IgnoreUnexported(rank.Entry{}),
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		dir, want := t.TempDir(), random(rand.New(rand.NewPCG(seed, 1)), 8)
		newStore(t, dir).Save(want)()
		got := loaded(t, dir)
		if diff := cmp.Diff(&want, got, same()); diff != "" {
			t.Fatalf("seed %d (-saved +loaded):\n%s", seed, diff)
		}
	}
}

func newStore(t *testing.T, dir string) *Store {
	t.Helper()
	return NewStore(Options{Dir: dir, Identity: thisBoot(), Now: noon, OnFailure: func(f Failure, err error) {
		if f == WriteFailed {
			t.Errorf("%s: %v", f, err)
		}
	}})
}

// loaded returns the state in a directory, once its writer has ended.
func loaded(t *testing.T, dir string) *State {
	t.Helper()
	for {
		got, err := Load(dir, thisBoot(), noon())
		var unusable *UnusableError
		switch {
		case err == nil:
			return got
		case errors.As(err, &unusable) && unusable.Reason == Missing: // a slow machine: Save does not wait for ever
			time.Sleep(time.Millisecond)
		default:
			t.Fatal(err)
		}
	}
}

func TestWhatIsNotUsedAndWhy(t *testing.T) {
	t.Parallel()
	text, err := Encode(random(rand.New(rand.NewPCG(1, 1)), 8), thisBoot(), noon())
	if err != nil {
		t.Fatal(err)
	}
	whole := string(text)
	for name, test := range map[string]struct {
		text string
		own  Identity
		now  time.Time
		want Reason
	}{
		"empty":                     {"", thisBoot(), noon(), Malformed},
		"cut":                       {whole[:len(whole)/2], thisBoot(), noon(), Malformed},
		"cut at its last character": {whole[:len(whole)-1], thisBoot(), noon(), Malformed},
		"more after it":             {whole + "{}", thisBoot(), noon(), Malformed},
		"an unknown field":          {strings.Replace(whole, `"bootID"`, `"color":1,"bootID"`, 1), thisBoot(), noon(), Malformed},
		"an unknown field inside":   {strings.Replace(whole, `"lastEnd"`, `"lastStart":1,"lastEnd"`, 1), thisBoot(), noon(), Malformed},
		"a field twice":             {strings.Replace(whole, `"bootID"`, `"bootID":"boot","bootID"`, 1), thisBoot(), noon(), Malformed},
		"another case":              {strings.Replace(whole, `"bootID"`, `"bootid"`, 1), thisBoot(), noon(), Malformed},
		"another version":           {strings.Replace(whole, `"version":3`, `"version":1`, 1), thisBoot(), noon(), OtherVersion},
		"no version":                {strings.Replace(whole, `"version":3,`, "", 1), thisBoot(), noon(), OtherVersion},
		"too large":                 {whole + strings.Repeat(" ", maxRead), thisBoot(), noon(), TooLarge},
		"another boot":              {whole, Identity{BootID: "another", NodeUID: "node"}, noon(), OtherBoot},
		"another node":              {whole, Identity{BootID: "boot", NodeUID: "another"}, noon(), OtherNode},
		"a node that is not known":  {whole, Identity{BootID: "boot"}, noon(), ""},
		"from the future":           {whole, thisBoot(), noon().Add(-futureTolerance - 1), FromTheFuture},
		"a corrected clock":         {whole, thisBoot(), noon().Add(-futureTolerance), ""},
		"as it was":                 {whole, thisBoot(), noon().Add(time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, FileName), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(dir, test.own, test.now)
			expectReason(t, err, test.want)
		})
	}
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		_, err := Load(t.TempDir(), thisBoot(), noon())
		expectReason(t, err, Missing)
	})
	t.Run("a directory", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, FileName), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir, thisBoot(), noon())
		expectReason(t, err, Unreadable)
	})
}

// expectReason fails the test unless the file is not used for this reason; "" is that it is.
func expectReason(t *testing.T, err error, want Reason) {
	t.Helper()
	var got Reason
	if unusable := (*UnusableError)(nil); errors.As(err, &unusable) {
		got = unusable.Reason
	}
	if got != want || (err == nil) != (want == "") {
		t.Errorf("%q: %v; want %q", got, err, want)
	}
}

func TestOversizedSectionsLoseTheirOldestEntries(t *testing.T) {
	t.Parallel()
	s := random(rand.New(rand.NewPCG(7, 7)), 20)
	kept := len(s.InFlight.Victims)
	s.Cooldown.Limits = nil
	for i := range 10_000 {
		s.Cooldown.Limits = append(s.Cooldown.Limits, cooldown.CountedState{Owner: strings.Repeat("o", 36), At: noon().Add(time.Duration(i) * time.Second)})
	}
	text, err := Encode(s, thisBoot(), noon())
	if err != nil || len(text) > MaxSize+1000 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	got, err := Decode(text, thisBoot(), noon())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Cooldown.Limits); n == 0 || !got.Cooldown.Limits[n-1].At.Equal(s.Cooldown.Limits[9999].At) {
		t.Errorf("%d counted evictions are left, and the newest is not among them", n)
	}
	if len(got.InFlight.Victims) != kept {
		t.Error("a section that is not too large lost entries")
	}
}

// TestAWriteThatHangsHoldsNothingUp: a state that is handed over while a write hangs is not waited
// for, and the newest state is written once the write continues.
func TestAWriteThatHangsHoldsNothingUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, FileName+".new")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil { // opening it hangs until there is a reader
		t.Fatal(err)
	}
	failures := make(chan Failure, 10)
	s := NewStore(Options{Dir: dir, Identity: thisBoot(), Now: noon, OnFailure: func(f Failure, _ error) { failures <- f }})
	s.Save(State{})()
	if got := <-failures; got != WriteSlow {
		t.Errorf("the failure is %s, want %s", got, WriteSlow)
	}
	for i := range 3 {
		s.Save(State{Cooldown: cooldown.State{Limits: make([]cooldown.CountedState, i+1)}})()
	}
	reader, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	_, _ = reader.Read(make([]byte, 1<<16))
	for { // the pipe is renamed, and then a file takes its place
		if info, err := os.Stat(filepath.Join(dir, FileName)); err == nil && info.Mode().IsRegular() {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if got := loaded(t, dir); len(got.Cooldown.Limits) != 3 {
		t.Errorf("%d evictions were written, want the newest state with 3", len(got.Cooldown.Limits))
	}
}

func TestAWriteThatFailsIsTold(t *testing.T) {
	t.Parallel()
	failures := make(chan Failure, 10)
	s := NewStore(Options{
		Dir: filepath.Join(t.TempDir(), "missing"), Identity: thisBoot(), Now: noon,
		OnFailure: func(f Failure, err error) {
			if f == WriteFailed && err != nil {
				failures <- f
			}
		},
	})
	s.Save(State{})()
	<-failures
	s.Save(State{})() // the same state again: the file does not have it
	<-failures
}

func TestTheSameStateIsWrittenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, state := newStore(t, dir), random(rand.New(rand.NewPCG(3, 3)), 8)
	s.Save(state)()
	loaded(t, dir)
	if err := os.Remove(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	done, _ := s.hand(state)
	<-done
	if _, err := os.Stat(filepath.Join(dir, FileName)); err == nil {
		t.Error("a state that is in the file was written again")
	}
	state.InFlight.Victims = nil
	done, _ = s.hand(state)
	<-done
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
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"4f9c\n": "4f9c", "\n": ""} {
		if err := os.WriteFile(filepath.Join(dir, "boot_id"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := BootID(root); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// FuzzDecode feeds the decoder: it must not fail otherwise than by an error, what it takes it
// takes again, and no memory fails over it.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(5) {
		text, err := Encode(random(rand.New(rand.NewPCG(seed, 1)), 1), thisBoot(), noon())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"version":3,"bootID":"boot","written":"2026-03-01T12:00:00Z","state":{"inFlight":{"victims":[{"phase":"requested"},{"phase":"gone"},{}]},"cooldown":{"limits":[{}],"owners":[{}],"backoff":{"pods":[{}]}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Decode(text, thisBoot(), noon())
		if err != nil {
			expectAReason(t, err)
			return
		}
		again, err := Encode(*got, thisBoot(), noon())
		if err != nil {
			return // a time that JSON cannot write
		}
		if _, err = Decode(again, thisBoot(), noon()); err != nil {
			t.Errorf("what was decoded is not decoded again: %v", err)
		}
		ledger := inflight.New(inflight.Options{})
		waits := cooldown.New(cooldown.Limits{PerMinute: 6}, func() float64 { return 0 })
		ledger.Restore(got.InFlight, noon())
		waits.Restore(got.Cooldown, noon())
		for _, b := range ledger.All() {
			if b.Accepted.After(noon()) {
				t.Errorf("booked in the future: %+v", b)
			}
			denied := cooldown.Answer{Pod: &rank.Pod{UID: b.UID}, Result: evict.Result{Outcome: evict.Denied}}
			waits.Observe(&cooldown.Report{Answers: []cooldown.Answer{denied}}, noon())
		}
	})
}

func expectAReason(t *testing.T, err error) {
	t.Helper()
	if unusable := (*UnusableError)(nil); !errors.As(err, &unusable) {
		t.Errorf("no reason: %v", err)
	}
}

// full is the state of a node on which everything happened at once: 64 victims in flight, and
// all of 110 pods refused.
func full() State {
	s := random(rand.New(rand.NewPCG(2, 2)), 8)
	booking, refusal := s.InFlight.Victims[0], s.Cooldown.Backoff.Pods[0]
	s.InFlight.Victims, s.Cooldown.Backoff.Pods = nil, nil
	for i := range 64 {
		booking.UID = fmt.Sprintf("6f0b4d0e-3c1f-4b52-9b0f-%012d", i)
		booking.Name = fmt.Sprintf("checkout-7d9c5b6f4-%05d", i)
		s.InFlight.Victims = append(s.InFlight.Victims, booking)
	}
	for i := range 110 {
		refusal.UID = fmt.Sprintf("6f0b4d0e-3c1f-4b52-9b0f-%012d", i)
		s.Cooldown.Backoff.Pods = append(s.Cooldown.Backoff.Pods, refusal)
	}
	return s
}

// BenchmarkSave writes a full state, as before a request. Run it with TMPDIR on tmpfs, as the
// state directory of the shipped manifest is.
func BenchmarkSave(b *testing.B) {
	s := NewStore(Options{Dir: b.TempDir(), Identity: thisBoot(), Now: noon, OnFailure: func(Failure, error) {}})
	state := full()
	text, err := Encode(state, thisBoot(), noon())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		state.InFlight.LastEnd = noon().Add(time.Duration(i) * time.Second) // it has changed
		done, _ := s.hand(state)
		<-done
	}
	b.ReportMetric(float64(len(text)), "bytes") // the loop's start forgets what was reported before
}

// A directory is tried beside the file of a process that runs, and nothing is left of it.
func TestTry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept := filepath.Join(dir, FileName)
	if err := os.WriteFile(kept, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
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
