package cooldown

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/evict"
)

// throughAFile returns a copy of an exported state as it comes back from a file.
func throughAFile[T any](t *testing.T, s T) T {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var copied T
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

// memories are the three that a restart must not forget.
type memories struct {
	limiter *Limiter
	owners  *HoldOff
	backoff *Backoff
}

func newMemories() memories {
	return memories{
		limiter: NewLimiter(Limits{PerMinute: 6, PerOwnerPerHour: 5}),
		owners:  NewHoldOff(), backoff: NewBackoff(noJitter),
	}
}

// restarted returns new memories that were restored from what the first ones export.
func (m memories) restarted(t *testing.T, now time.Time) memories {
	t.Helper()
	next := newMemories()
	next.limiter.Restore(throughAFile(t, m.limiter.Export()), now)
	next.owners.Restore(throughAFile(t, m.owners.Export()), now)
	next.backoff.Restore(throughAFile(t, m.backoff.Export()), now)
	return next
}

// happen makes one random thing happen to the memories.
func (m memories) happen(r *rand.Rand, now time.Time) {
	uid, owner, dryRun := fmt.Sprintf("pod-%d", r.IntN(8)), fmt.Sprintf("owner-%d", r.IntN(3)), r.IntN(4) == 0
	switch r.IntN(6) {
	case 0, 1:
		m.limiter.Count(owner, dryRun, now)
		m.owners.Note(Victim{
			Owner: owner, Created: at(time.Duration(r.IntN(4000)) * time.Second), Newest: at(2000 * time.Second), DryRun: dryRun,
		}, now)
	case 2:
		m.backoff.Forget(func(there string) bool { return there != uid })
	default:
		outcome := evict.Outcomes()[r.IntN(len(evict.Outcomes()))]
		m.backoff.Note(Pod{UID: uid, Namespace: "shop", Ready: r.IntN(2) == 0}, evict.Result{
			Outcome: outcome, Budget: []string{"", "web", "db"}[r.IntN(3)], Stays: true, Silent: r.IntN(2) == 0,
		}, now)
	}
}

// says returns all that can be asked of the memories at a time.
func (m memories) says(now time.Time) map[string]any {
	said := map[string]any{"node": m.limiter.Node(now)}
	blocked, misconfigured := m.backoff.Blocked(now)
	said["blocked"] = fmt.Sprint(m.owners.Owners(now), blocked, misconfigured, m.backoff.ServerWaits(now).UnixNano())
	for i := range 3 {
		owner := fmt.Sprintf("owner-%d", i)
		said[owner] = m.limiter.Owner(owner, now) + m.owners.Owner(owner, now)
	}
	for i := range 8 {
		for _, ready := range []bool{false, true} {
			pod := Pod{UID: fmt.Sprintf("pod-%d", i), Namespace: "shop", Ready: ready}
			last, waits := m.backoff.Waits(pod, now)
			if !waits {
				last = ""
			}
			said[fmt.Sprint(pod)] = fmt.Sprint(last, waits, m.backoff.KeptWith(pod, now))
		}
	}
	return said
}

// Guards invariant 9: whatever has happened before, a process that was restarted and one that
// was not say the same from then on, whatever happens.
func TestRestoredMemoriesSayTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		before, now := newMemories(), at(time.Hour)
		r := rand.New(rand.NewPCG(seed, 1))
		for range r.IntN(40) {
			now = now.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
			before.happen(r, now)
		}
		restored := before.restarted(t, now)
		for step := range 30 {
			if diff := cmp.Diff(before.says(now), restored.says(now)); diff != "" {
				t.Fatalf("seed %d, step %d after the restart (-not restarted +restarted):\n%s", seed, step, diff)
			}
			now = now.Add(time.Duration(r.IntN(60_000)) * time.Millisecond)
			same := r.Uint64()
			before.happen(rand.New(rand.NewPCG(same, 2)), now)
			restored.happen(rand.New(rand.NewPCG(same, 2)), now)
		}
	}
}

func TestExpiredEntriesAreNotRestored(t *testing.T) {
	t.Parallel()
	m := newMemories()
	m.limiter.Count("owner", false, at(0))
	m.owners.Note(Victim{Owner: "owner", Created: at(0), Newest: at(0)}, at(0))
	m.backoff.Note(podOf("a"), blocked("web"), at(0))
	m.backoff.Note(podOf("b"), evict.Result{Outcome: evict.Throttled}, at(0))
	for after, want := range map[time.Duration]string{
		0:             "1 counted, 1 owners, 1 pods, 1 budgets, server true",
		time.Hour:     "0 counted, 1 owners, 0 pods, 0 budgets, server false",
		2 * time.Hour: "0 counted, 0 owners, 0 pods, 0 budgets, server false",
	} {
		next := m.restarted(t, at(after))
		b := next.backoff.Export()
		if got := fmt.Sprintf("%d counted, %d owners, %d pods, %d budgets, server %v", len(next.limiter.Export()), len(next.owners.Export()), len(b.Pods), len(b.Budgets), b.Server != nil); got != want {
			t.Errorf("restored after %v: %s; want %s", after, got, want)
		}
	}
}

func TestDryRunEntriesEndWithTheDryRunAfterARestart(t *testing.T) {
	t.Parallel()
	m := newMemories()
	for range 6 {
		m.limiter.Count("owner", true, at(0))
	}
	m.owners.Note(Victim{Owner: "owner", Created: at(time.Second), Newest: at(0), DryRun: true}, at(0))
	next := m.restarted(t, at(time.Second))
	if next.limiter.Node(at(time.Second)) == "" {
		t.Error("the dry run's entries were not restored")
	}
	next.limiter.ForgetDryRuns()
	next.owners.ForgetDryRuns()
	if next.limiter.Node(at(time.Second)) != "" || len(next.owners.Export()) > 0 {
		t.Error("the dry run's entries outlived it")
	}
}

// A clock that was set back must not make anything last longer.
func TestRestoredTimesAreNotInTheFuture(t *testing.T) {
	t.Parallel()
	m, now := newMemories(), at(0)
	m.limiter.Count("owner", false, at(time.Hour))
	for i := range 12 {
		m.owners.Note(Victim{Owner: "owner", Created: at(time.Duration(i) * time.Second), Newest: at(0)}, at(time.Hour))
	}
	m.backoff.Note(podOf("a"), evict.Result{Outcome: evict.Denied}, at(time.Hour))
	next := m.restarted(t, now)
	if next.limiter.Owner("owner", now.Add(time.Hour)) != "" || next.limiter.Export()[0].At.After(now) {
		t.Error("an eviction counts for more than an hour")
	}
	if next.owners.Owner("owner", now) == "" || next.owners.Owner("owner", now.Add(time.Hour)) != "" {
		t.Error("an owner's back-off is not bounded")
	}
	if _, waits := next.backoff.Waits(podOf("a"), now.Add(13*time.Minute)); waits {
		t.Error("a pod's back-off is not bounded")
	}
}
