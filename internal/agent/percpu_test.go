package agent

import (
	"testing"
	"testing/synctest"
	"time"
)

// What a victim gave back waits on the kernel's per-CPU lists for seconds, where MemAvailable
// does not show it: no other pod goes for it. Once the lists have shrunk and the memory is used
// by somebody else, the next one goes.
func TestFaultFreedMemoryThatIsNotShownTakesAnother(t *testing.T) {
	t.Parallel()
	const base, freed = 200 * mebi, 500 * mebi
	for name, test := range map[string]struct {
		hidden time.Duration // how long what was freed is on the lists
		host   int64         // what the host takes of it then
		known  bool
		want   []string
	}{
		"it is shown after ten seconds":                 {10 * time.Second, 0, true, []string{"greedy"}},
		"the host has taken it":                         {10 * time.Second, freed, true, []string{"greedy", "next"}},
		"the lists stay long, and somebody else has it": {time.Hour, 0, true, []string{"greedy", "next"}},
		"the lists cannot be read":                      {10 * time.Second, 0, false, []string{"greedy", "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := newFakeNode(1000)
				n.run("greedy", 500, 100)
				n.run("next", 300, 100)
				n.host = 130 * mebi // 70 are available
				onLists, gone := int64(base), false
				a := newAgent(t, n, hardPolicy())
				a.options.FreeOnCPULists = func() (int64, error) {
					n.mu.Lock()
					defer n.mu.Unlock()
					if !test.known {
						return 0, errPlanted()
					}
					return onLists, nil
				}
				// The victim ends two seconds after its acceptance: its memory goes to the lists.
				n.after(n.ends, func() {
					n.host, onLists, gone = n.host+freed, onLists+freed, true
				})
				n.after(n.ends+test.hidden, func() {
					n.host, onLists = n.host-freed+test.host, onLists-freed
				})
				runFor(t, a, time.Minute)
				if n.wantVictims(t, test.want...); !gone {
					t.Error("the test did nothing")
				}
			})
		})
	}
}

// Nothing is read while no victim was accepted.
func TestCPUListsAreReadAfterAVictimAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.host = 950 * mebi
		a := newAgent(t, n, hardPolicy())
		a.options.FreeOnCPULists = func() (int64, error) {
			t.Error("the lists were read")
			return 0, nil
		}
		runFor(t, a, 5*time.Second)
	})
}
