package cooldown

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// made is an eviction of one pod of the owner, made at one time, while the youngest on the
// node was made at another.
func made(created, newest time.Duration) Victim {
	return Victim{Owner: "web", Created: at(created), Newest: at(newest)}
}

// ownerWaits returns one sentence while the owner is in back-off.
func ownerWaits(h *owners, owner string, now time.Time) string {
	r, _ := h.waits(owner, now)
	return r.Detail
}

// heldFor returns how long the owner is in back-off from then on.
func heldFor(h *owners, owner string, now time.Duration) time.Duration {
	for d := time.Duration(0); ; d += time.Second {
		if ownerWaits(h, owner, at(now+d)) == "" {
			return d
		}
	}
}

func TestOwnerBackOffGrowsWithEachReturn(t *testing.T) {
	t.Parallel()
	h, now := newOwners(), time.Duration(0)
	h.note(made(-time.Hour, -time.Hour), at(0))
	if reason := ownerWaits(h, "web", at(0)); reason != "" {
		t.Errorf("in back-off before a pod came back: %s", reason)
	}
	for i, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		want := time.Duration(minutes) * time.Minute
		now += time.Second
		h.note(made(now, now), at(now))
		if got := heldFor(h, "web", now); got != want {
			t.Errorf("return %d: in back-off for %v, want %v", i+1, got, want)
		}
		if h.waiting(at(now)) != 1 || ownerWaits(h, "other", at(now)) != "" {
			t.Error("another owner is in back-off")
		}
		now += want
		if h.waiting(at(now)) != 0 {
			t.Error("in back-off after its end")
		}
	}
}

func TestOwnerBackOffSaysWhenItEnds(t *testing.T) {
	t.Parallel()
	h := newOwners()
	h.note(made(0, 0), at(0))
	h.note(made(time.Second, time.Second), at(2*time.Second))
	want := "1 of its owner's pods came back to this node and were evicted again: its pods stay until 2026-03-01T12:01:02Z, another 32s"
	if got := ownerWaits(h, "web", at(30*time.Second)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestReplicasThatWereThereAllAlongAreNoReturn: replicas that were on the node all along are no
// return, nor is a pod that came before the first of them was evicted. The return of another
// replica does not change that.
func TestReplicasThatWereThereAllAlongAreNoReturn(t *testing.T) {
	t.Parallel()
	h := newOwners()
	for i := range 5 {
		now := time.Duration(i) * time.Second
		h.note(made(time.Duration(i-10)*time.Minute, -6*time.Minute), at(now))
		if reason := ownerWaits(h, "web", at(now)); reason != "" {
			t.Errorf("replica %d: %s", i, reason)
		}
	}
	h.note(made(10*time.Second, 10*time.Second), at(time.Minute))
	h.note(made(-7*time.Minute, 10*time.Second), at(3*time.Minute))
	if reason := ownerWaits(h, "web", at(3*time.Minute)); reason != "" {
		t.Errorf("an old replica after a return: %s", reason)
	}
	// It was on the node when the old pod was evicted, and had come after the eviction of the
	// first.
	h.note(made(11*time.Second, 11*time.Second), at(4*time.Minute))
	if reason := ownerWaits(h, "web", at(4*time.Minute)); !strings.HasPrefix(reason, "2 of its owner's pods") {
		t.Errorf("a second return: %q", reason)
	}
}

// Replicas that an autoscaler adds are no return: there are more pods here than the owner has
// lost. What comes back after that is one again.
func TestFaultReplicasThatWereAddedAreNoReturn(t *testing.T) {
	t.Parallel()
	h := newOwners()
	h.note(made(-time.Hour, -time.Hour), at(0))
	scaled := made(40*time.Second, 50*time.Second)
	for _, created := range []time.Duration{-2 * time.Hour, 30 * time.Second, 40 * time.Second, 50 * time.Second} {
		scaled.Here = append(scaled.Here, at(created))
	}
	h.note(scaled, at(time.Minute))
	if reason := ownerWaits(h, "web", at(time.Minute)); reason != "" {
		t.Errorf("a replica that was added: %s", reason)
	}
	h.note(made(30*time.Second, 50*time.Second), at(70*time.Second))
	if reason := ownerWaits(h, "web", at(70*time.Second)); reason != "" {
		t.Errorf("another one of them: %s", reason)
	}
	returned := made(80*time.Second, 80*time.Second)
	returned.Here = []time.Time{at(-2 * time.Hour), at(50 * time.Second), at(80 * time.Second)}
	h.note(returned, at(90*time.Second))
	if reason := ownerWaits(h, "web", at(90*time.Second)); !strings.HasPrefix(reason, "1 of its owner's pods") {
		t.Errorf("a return: %q", reason)
	}
}

func TestAPodWithoutAnOwnerDoesNotComeBack(t *testing.T) {
	t.Parallel()
	h := newOwners()
	for i := range 5 {
		now := time.Duration(i) * time.Minute
		h.note(Victim{Created: at(now), Newest: at(now)}, at(now))
	}
	if reason := ownerWaits(h, "", at(4*time.Minute)); reason != "" || h.waiting(at(4*time.Minute)) != 0 {
		t.Errorf("bare pods are in back-off: %s", reason)
	}
}

func TestReturnsAreForgotten(t *testing.T) {
	t.Parallel()
	for quiet, want := range map[time.Duration]time.Duration{
		2*time.Hour - time.Second: 4 * time.Minute, // the third
		2 * time.Hour:             0,               // the first of a new row
	} {
		h := newOwners()
		h.note(made(-time.Hour, -time.Hour), at(0))
		h.note(made(1, 1), at(1))
		h.note(made(2, 2), at(time.Hour))
		h.note(made(time.Hour+quiet, time.Hour+quiet), at(time.Hour+quiet))
		if got := heldFor(h, "web", time.Hour+quiet); got != want {
			t.Errorf("in back-off for %v after %v without a return, want %v", got, quiet, want)
		}
	}
}

func TestOwnerBackOffForgetsDryRuns(t *testing.T) {
	t.Parallel()
	h := newOwners()
	for _, dryRun := range []bool{true, false} {
		for i := range 2 {
			now := time.Duration(i) * time.Second
			v := made(now, now)
			v.Owner, v.DryRun = map[bool]string{true: "dry", false: "wet"}[dryRun], dryRun
			h.note(v, at(now))
		}
	}
	h.forgetDryRuns()
	if ownerWaits(h, "dry", at(time.Second)) != "" || ownerWaits(h, "wet", at(time.Second)) == "" {
		t.Error("want what happened remembered, and what a dry run simulated forgotten")
	}
}

// story is a series of evictions of one owner's pods on a node, whose API server's clock is off by
// skew: pods that were there at first, and pods that come when one is evicted. Each is evicted as
// soon as it may be. It returns the times of the evictions.
func story(seed uint64, skew, during time.Duration) (evicted []time.Duration, returns int) {
	r := rand.New(rand.NewPCG(seed, 2))
	h := newOwners()
	old := 1 + r.IntN(4)
	pods := make([]time.Duration, 0, old)
	for range old {
		pods = append(pods, -time.Duration(r.Int64N(int64(24*time.Hour))))
	}
	for now := time.Duration(0); now < during; now += time.Duration(1 + r.Int64N(int64(5*time.Second))) {
		if ownerWaits(h, "web", at(now)) != "" {
			continue
		}
		i, newest := r.IntN(len(pods)), pods[0]
		for _, p := range pods {
			newest = max(newest, p)
		}
		v := made(pods[i]+skew, newest+skew)
		h.note(v, at(now))
		evicted = append(evicted, now)
		if pods[i] > 0 {
			returns++
		}
		pods[i] = now + 1 + time.Duration(r.Int64N(int64(time.Second)))
	}
	return evicted, returns
}

// However the replicas and their returns are mixed, the evictions in a time are bounded by
// its logarithm, and the clock of the API server changes nothing.
func TestPodsThatComeBackAreEvictedLogarithmicallyOften(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		during := time.Duration(1+seed%60) * time.Minute
		evicted, returns := story(seed, 0, during)
		// The n-th return is followed by 2^(n-1) minutes without any.
		if most := int(math.Log2(during.Minutes()+1)) + 1; returns > most {
			t.Errorf("seed %d: %d returns were evicted in %v, want %d at most", seed, returns, during, most)
		}
		for _, skew := range []time.Duration{-time.Hour, time.Hour} {
			skewed, _ := story(seed, skew, during)
			if len(skewed) != len(evicted) {
				t.Errorf("seed %d: %d evictions with a clock that is off by %v, %d without", seed, len(skewed), skew, len(evicted))
			}
		}
	}
}
