package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/pkg/pressure"
)

var replays = flag.Int("replays", 40, "how many records of random scenarios are replayed")

// recording plays a scenario in a bubble of its own, and returns what its record says.
func recording(t *testing.T, s *Scenario, policy agent.Policy) (n *Recording) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if n, err = ReadRecording(recorded(t, s, policy), time.Time{}); err != nil {
			t.Fatal(err)
		}
	})
	return n
}

// unchanged is a policy that no configuration changes.
func unchanged(policy agent.Policy) func(*config.EvictdConfiguration) agent.Policy {
	return func(*config.EvictdConfiguration) agent.Policy { return policy }
}

// accepted are the victims of requests.
func accepted(all []Request) (victims []string) {
	for _, r := range all {
		if r.Outcome.Accepted() && !r.Again {
			victims = append(victims, r.Pod)
		}
	}
	return victims
}

// TestReplayDecidesTheSame records random scenarios, some of them in a dry run, and replays each with the same policy: the same
// pods are evicted, in the same order. On such a node, with twice what fits, so much happens within the second between two
// lines of the record that 1 of 60 is decided differently; 1 of 10 may be.
func TestReplayDecidesTheSame(t *testing.T) { //nolint:tparallel // what they find together is looked at behind them
	t.Parallel()
	var different atomic.Int64
	t.Run("records", func(t *testing.T) {
		for seed := range uint64(*replays) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				s := random{rand.New(rand.NewPCG(seed, 7))}.scenario()
				s.killed, s.API = nil, nil // the record does not have what a server that is down would answer
				policy := HardPolicy()
				policy.Transition, policy.DryRun = time.Minute, seed%4 == 3
				n := recording(t, s, policy)
				synctest.Test(t, func(t *testing.T) {
					r, err := n.Replay(unchanged(policy))
					if err != nil {
						t.Fatal(err)
					}
					if want, got := accepted(n.requests), accepted(r.Requests); !slices.Equal(want, got) {
						different.Add(1)
						t.Logf("the record has\n%v\nand its replay\n%v", want, got)
					}
				})
			})
		}
	})
	if n := int(different.Load()); n*10 > *replays {
		t.Errorf("%d of %d records are decided differently", n, *replays)
	}
}

// TestReplayWithAnotherPolicy replays a record with its own line, a higher and a lower one, and with several at once.
func TestReplayWithAnotherPolicy(t *testing.T) {
	t.Parallel()
	policy := HardPolicy()
	policy.Transition = time.Minute
	n := recording(t, leakBesideBudget(), policy)
	var out strings.Builder
	for _, line := range []float32{0.1, 0.15, 0.05} {
		policy.Thresholds = []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(line), Hard: true}}
		fmt.Fprintf(&out, "== a line of %.0f %%\n\n", 100*line)
		synctest.Test(t, func(t *testing.T) {
			if err := n.Compare(&out, unchanged(policy)); err != nil {
				t.Error(err)
			}
		})
		out.WriteString("\n")
	}
	out.WriteString("== other lines\n\n")
	synctest.Test(t, func(t *testing.T) {
		if err := n.Suggest(&out, unchanged(policy)); err != nil {
			t.Error(err)
		}
	})
	golden.Compare(t, "testdata/replay.txt", out.String(), *updateGolden, "go test ./internal/sim -update")
}

// TestConfigurationOfARecording applies a configuration between two frames: it is the one of all readings since then.
func TestConfigurationOfARecording(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 25, 3, 0, 0, 0, time.UTC)
	dir, now, c := t.TempDir(), begin, config.Default()
	w, err := history.NewWriter(dir, history.Options{Now: func() time.Time { return now }, MaxSize: 1 << 30, Failed: func(err error) { t.Error(err) }, Complete: func(d *status.Document) {
		d.APIVersion, d.Kind, d.Configuration = status.APIVersion, status.Kind, c
	}})
	if err != nil {
		t.Fatal(err)
	}
	document := func(second int) {
		w.Document(&status.Document{Time: begin.Add(time.Duration(second) * time.Second), Pods: []status.Pod{}})
	}
	document(0)
	document(1)
	now = begin.Add(1500 * time.Millisecond)
	if _, err = fmt.Fprintf(w, `{"ts":"%s","msg":"configuration applied"}`, now.Format(time.RFC3339Nano)); err != nil {
		t.Fatal(err)
	}
	document(2)
	document(3)
	w.Start()()
	c = new(*c)
	c.DryRun = !c.DryRun
	document(4)
	w.Start()()
	r, err := history.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	n, err := ReadRecording(r, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var later []bool
	for _, r := range n.readings {
		later = append(later, r.config.DryRun == c.DryRun)
	}
	if want := []bool{false, false, true, true, true}; !slices.Equal(later, want) {
		t.Errorf("the readings have the later configuration: %v, want %v", later, want)
	}
}
