package measure

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/measuretest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// hanging is a source of disk use that never answers.
type hanging struct{}

func (hanging) Measure(ctx context.Context, _ []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hanging) Unused(context.Context, []*nodepods.Pod) (UnusedImages, error) {
	return UnusedImages{}, nil
}

// TestDiskIsKnownOnlyByAYoungMeasurement: a decision is based on a measurement of the disks only
// while the measurement is fresh, newer than the pressure and the last victim's end, and without an
// error. Whatever the source does, nothing waits for it.
func TestDiskIsKnownOnlyByAYoungMeasurement(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	used := measuretest.DiskUse(9, 9, 9, 9)
	used.Time = at
	measured := map[string]usage.DiskUse{"uid": used}
	type reading = Reading[map[string]usage.DiskUse]
	for name, test := range map[string]struct {
		answer       reading
		since, newer time.Duration // from the measurement
		age          time.Duration
		known        bool
	}{
		"young":                        {reading{Figures: measured, At: at}, -time.Minute, -time.Minute, decide.DiskMaxAge - 1, true},
		"old":                          {reading{Figures: measured, At: at}, -time.Minute, -time.Minute, decide.DiskMaxAge, false},
		"from before the pressure":     {reading{Figures: measured, At: at}, 1, -time.Minute, time.Second, false},
		"from before a victim's end":   {reading{Figures: measured, At: at}, -time.Minute, 0, time.Second, false},
		"a fault":                      {reading{Err: errors.New("planted"), At: at}, -time.Minute, -time.Minute, time.Second, false},
		"nothing was ever measured":    {reading{}, -time.Minute, -time.Minute, time.Second, false},
		"the pod has no figures in it": {reading{At: at}, -time.Minute, -time.Minute, time.Second, true},
	} {
		m := New(Options{Disk: hanging{}, Fault: func(string, error) {}})
		m.disk.take(test.answer, m.options.Fault)
		s := &decide.Situation{
			Pressure: pressure.Pressure{
				Threshold: pressure.Threshold{Signal: pressure.NodeFSAvailable},
				Observed:  pressure.Observation{Available: 1}, Since: at.Add(test.since), SampleTime: at.Add(test.age),
			},
			Pods: []*nodepods.Pod{{Pod: rank.Pod{UID: "uid"}, CgroupUID: "uid"}}, LastEnd: at.Add(test.newer), Policy: &decide.Policy{},
			InFlight: []decide.Victim{{Deadline: at.Add(time.Hour), Expected: pressure.Amounts{}.With(pressure.NodeFSAvailable, 1)}}, // enough
		}
		s.Uses = m.Uses(t.Context(), s)
		if known := decide.Decide(s).Decision.Hold == decide.HoldReclaimInProgress; known != test.known {
			t.Errorf("%s: known is %t, uses %v; want %t", name, known, s.Uses, test.known)
		}
	}
}
