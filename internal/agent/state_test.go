package agent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

const thisBoot = "boot"

// inDoubtOn returns a request whose outcome is not known, about a filesystem.
func inDoubtOn(uid string, device uint64) *decide.InDoubt {
	return &decide.InDoubt{
		Attempt: decide.Attempt{
			Entry:  rank.Entry{Pod: &rank.Pod{Namespace: "shop", Name: uid, UID: uid}},
			Result: evict.Result{Outcome: evict.Unconfirmed, Pending: true, Sent: noon()},
		},
		Pressure: pressure.Pressure{
			Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable, Hard: true},
			Observed:  pressure.Observation{State: pressure.Known, Device: device}, Since: noon(), SampleTime: noon(),
		},
		Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, 7), First: noon(),
	}
}

// randomState returns a state with so many entries in each section at most.
func randomState(r *rand.Rand, most int) (s State) {
	when := func() time.Time { return noon().Add(time.Duration(r.Int64N(int64(time.Hour)))) }
	text := func(kind string) string { return fmt.Sprintf("%s-%d", kind, r.IntN(1000)) }
	amounts := func() pressure.Amounts {
		return pressure.Amounts{}.With(pressure.MemoryAvailable, r.Int64()).With(pressure.NodeFSAvailable, r.Int64N(1<<40))
	}
	for range r.IntN(most + 1) {
		s.Incidents = append(s.Incidents, incident.Incident{
			ID: text("memory.available"), Resource: decide.Resource{Kind: pressure.SpaceKind, Device: r.Uint64()},
			Signal: pressure.NodeFSAvailable, Began: when(), Short: when(), Lowest: r.Int64(),
			Victims: []incident.Victim{{Pod: "shop/" + text("pod"), UID: text("uid"), DryRun: r.IntN(2) == 0}}, More: r.IntN(9),
			KillsBefore: r.Int64(), Warned: r.IntN(2) == 0,
		})
		s.InFlight.LastEnd = when()
		s.InFlight.Victims = append(s.InFlight.Victims, decide.Victim{
			Namespace: "shop", Name: text("name"), UID: text("pod"), Phase: []decide.Phase{decide.Terminating, decide.Gone}[r.IntN(2)],
			Expected: amounts(), Before: amounts(), Signal: "memory.available",
			Accepted: when(), Deadline: when(), Ended: when(), GraceSeconds: r.Int64(), DryRun: r.IntN(2) == 0,
		}, *inDoubtOn(text("pod"), r.Uint64()).Victim())
		s.Cooldown.Accepted = append(s.Cooldown.Accepted, cooldown.Accepted{Owner: text("owner"), At: when()})
		s.Cooldown.Waits = map[string]cooldown.Wait{"pod/shop/" + text("pod"): {Until: when(), Count: r.IntN(9), Why: evict.Denied}}
	}
	return s
}

func TestStateIsTheSameFromAFile(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		want := randomState(rand.New(rand.NewPCG(seed, 1)), 8)
		text, err := state.Encode(want, thisBoot)
		must.Succeed(t, err)
		var got State
		must.Succeed(t, state.Decode(text, thisBoot, &got))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(pressure.Amounts{}, pressure.Quantity{}), cmpopts.IgnoreUnexported(rank.Entry{})); diff != "" {
			t.Fatalf("seed %d (-saved +loaded):\n%s", seed, diff)
		}
	}
}

// FuzzRestore feeds a process with files: it must not fail otherwise than by an error, what it takes it
// takes again, and no victim is of the future.
func FuzzRestore(f *testing.F) {
	for seed := range uint64(5) {
		text, err := state.Encode(randomState(rand.New(rand.NewPCG(seed, 1)), 1), thisBoot)
		must.Succeed(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"version":4,"bootID":"boot","state":{"inFlight":{"victims":[{"phase":"requested"},{"phase":"requested","request":{}},{"phase":"gone"},{}]}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got State
		if state.Decode(text, thisBoot, &got) != nil {
			return
		}
		again, err := state.Encode(got, thisBoot)
		if err != nil {
			return // a time that JSON cannot write
		}
		if err = state.Decode(again, thisBoot, &State{}); err != nil {
			t.Errorf("what was decoded is not decoded again: %v", err)
		}
		a := newBenchAgent(t, newBenchNode(1, 100))
		a.restore(&got, noon())
		for _, v := range a.victims.All() {
			if v.Accepted.After(noon()) {
				t.Errorf("in flight from the future: %+v", v)
			}
			d := decide.Decision{Attempts: []decide.Attempt{{Entry: rank.Entry{Pod: &rank.Pod{UID: v.UID}}, Result: evict.Result{Outcome: evict.Denied}}}}
			a.learn(&decide.Report{Decision: d}, noon())
		}
	})
}

// kept is a memory that counts, and has what was handed over last.
type kept struct {
	last          State
	saves, awaits int
}

func (k *kept) Save(s any) func() {
	if last, is := s.(State); is {
		k.last, k.saves = last, k.saves+1
	}
	return func() { k.awaits++ }
}

// uids returns the pods of the requests that were handed over last.
func (k *kept) uids() []string {
	var uids []string
	for _, v := range k.last.InFlight.Victims {
		uids = append(uids, v.UID)
	}
	return uids
}

// requests is the state with requests in doubt.
func requests(open ...*decide.InDoubt) (s State) {
	for _, o := range open {
		s.InFlight.Victims = append(s.InFlight.Victims, *o.Victim())
	}
	return s
}

// Guards invariant 9: a request that is under way is part of each state that is handed over until
// it was answered, in place of the one in doubt about the same resource alone.
func TestInvariant09RequestUnderWayIsInEachState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // noon is ahead: what is restored was sent now
		to := &kept{}
		known := requests(inDoubtOn("disk", 1), inDoubtOn("other", 2))
		a := newBenchAgent(t, newBenchNode(1, 100), func(o *Options) { o.Save, o.Remembered = to.Save, &known })
		a.planned, a.known = &decide.Decision{}, a.export()
		a.changed = true
		if a.keepChanged(); to.saves != 0 {
			t.Error("a state without the request was handed over")
		}
		done := make(chan struct{})
		go func() { defer close(done); a.beforeSend(inDoubtOn("sent", 1)) }()
		<-done
		if want := []string{"other", "sent"}; to.awaits != 1 || !slices.Equal(to.uids(), want) {
			t.Errorf("before the request %v was kept, and waited for %d times; want %v, once", to.uids(), to.awaits, want)
		}
		if a.keepChanged(); to.saves != 1 {
			t.Error("while it is under way another state is handed over")
		}
		a.takeReport(decide.Report{})
		a.keepChanged()
		if want := []string{"disk", "other"}; !slices.Equal(to.uids(), want) {
			t.Errorf("after its answer %v is kept, want %v", to.uids(), want)
		}
	})
}

// BenchmarkSave writes a full state, as before a request: 64 victims in flight, and all of 110 pods
// refused. Run it with TMPDIR on tmpfs, as the state directory of the shipped manifest is.
func BenchmarkSave(b *testing.B) {
	store := state.NewStore(b.TempDir(), thisBoot, func(error) {})
	s := randomState(rand.New(rand.NewPCG(2, 2)), 8)
	victim := s.InFlight.Victims[0]
	s.InFlight.Victims = nil
	for i := range 64 {
		victim.UID, victim.Name = fmt.Sprintf("6f0b4d0e-3c1f-4b52-9b0f-%012d", i), fmt.Sprintf("checkout-7d9c5b6f4-%05d", i)
		s.InFlight.Victims = append(s.InFlight.Victims, victim)
	}
	for i := range 110 {
		s.Cooldown.Waits[fmt.Sprintf("pod/shop/6f0b4d0e-3c1f-4b52-9b0f-%012d", i)] = cooldown.Wait{Until: noon(), Count: 3, Why: evict.BlockedByBudget, PDB: "checkout"}
	}
	text, err := state.Encode(s, thisBoot)
	must.Succeed(b, err)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.InFlight.LastEnd = noon().Add(time.Duration(i) * time.Second) // it has changed
		store.Save(s)()
	}
	b.ReportMetric(float64(len(text)), "bytes") // the loop's start forgets what was reported before
}
