package record_test

import (
	"errors"
	"testing"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/record"
)

// The kernel's count is shown from evictd's start on, and not while it cannot be read: the
// kills from then count once it can.
func TestOOMKillsTotal(t *testing.T) {
	t.Parallel()
	const name = "evictd_oom_kills_total"
	const head = `
# HELP evictd_oom_kills_total Processes that the kernel has killed for want of memory since evictd started, in limits of cgroups and on the whole machine. Missing while that cannot be read.
# TYPE evictd_oom_kills_total counter
`
	r := newRig(t) // which starts with 40
	expect(t, r, head+name+" 0\n", name)
	r.kills = 43
	expect(t, r, head+name+" 3\n", name)
	r.kills, r.unread = 44, errors.New("unread")
	expect(t, r, "", name)
	r.unread = nil
	expect(t, r, head+name+" 4\n", name)
}

// What the memory is used by is shown while it is known.
func TestMemoryUsed(t *testing.T) {
	t.Parallel()
	const name = "evictd_memory_used_bytes"
	const head = `
# HELP evictd_memory_used_bytes What the node's memory is used by; together the parts are all that is not free. Missing while it cannot be read.
# TYPE evictd_memory_used_bytes gauge
`
	r := newRig(t)
	r.memory = decide.Breakdown{"Anonymous": 7, "Other": 0}
	expect(t, r, head+name+`{part="Anonymous"} 7
`+name+`{part="Other"} 0
`, name)
	r.unread = errors.New("unread")
	expect(t, r, "", name)
}

// A kill is told with the last decision that named the pod, where there is one.
func TestOOMKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, other := decision(), held(decide.HoldNoCandidates)
	other.ID = d.ID + 1
	r.Decision(d)
	r.Decision(other)
	r.lines(t)
	for _, test := range []struct {
		name string
		kill record.OOMKill
		want map[string]any
	}{
		{
			"evicted",
			record.OOMKill{Pod: "shop/hog", UID: "uid-hog", Container: "main", Count: 2},
			map[string]any{"level": "warn", "pod": "shop/hog", "uid": "uid-hog", "container": "main", "oom_kills": 2.0, "last_decision": float64(d.ID)},
		},
		{
			"next",
			record.OOMKill{Pod: "shop/fair", UID: "uid-fair", Count: 1},
			map[string]any{"pod": "shop/fair", "container": nil, "last_decision": float64(d.ID)},
		},
		{
			"protected",
			record.OOMKill{Pod: "shop/evictd", UID: "uid-evictd", Count: 1},
			map[string]any{"pod": "shop/evictd", "oom_kills": 1.0, "last_decision": nil},
		},
	} {
		r.OOMKilled(&test.kill)
		line := r.lines(t)[0]
		for key, want := range test.want {
			if line[key] != want {
				t.Errorf("%s: %s is %v; want %v", test.name, key, line[key], want)
			}
		}
	}
}
