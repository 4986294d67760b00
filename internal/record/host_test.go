package record_test

import (
	"errors"
	"testing"

	"github.com/evictd/evictd/internal/hostinfo"
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
	r.memory = hostinfo.Memory{{Part: hostinfo.PartAnonymous, Bytes: 7}, {Part: hostinfo.PartOther, Bytes: 0}}
	expect(t, r, head+name+`{part="Anonymous"} 7
`+name+`{part="Other"} 0
`, name)
	r.unread = errors.New("unread")
	expect(t, r, "", name)
}

// A kill is told with the decision before it.
func TestOOMKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := decision()
	r.Decision(d)
	r.lines(t)
	r.OOMKilled("shop/greedy", "uid-1", 2)
	line := r.lines(t)[0]
	for key, want := range map[string]any{
		"level": "warn", "pod": "shop/greedy", "uid": "uid-1", "oom_kills": 2.0, "last_decision": float64(d.ID),
	} {
		if line[key] != want {
			t.Errorf("%s is %v; want %v", key, line[key], want)
		}
	}
}
