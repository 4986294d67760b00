package decide

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// The line is at 100, the kubelet's at 40 where it is known.
func TestRunsOut(t *testing.T) {
	t.Parallel()
	falling := func(rate float64) pressure.Forecast {
		return pressure.Forecast{Known: true, Rate: rate, Least: rate, Over: 10 * time.Second}
	}
	for _, test := range []struct {
		name   string
		left   Remainder
		within time.Duration
		want   bool
	}{
		{"below the line, steady", Remainder{Hard: true, Available: 99, Line: 100}, time.Minute, false},
		{"half of the line is left", Remainder{Hard: true, Available: 50, Line: 100}, time.Minute, false},
		{"less than half of it", Remainder{Hard: true, Available: 49, Line: 100}, 0, true},
		{"a soft threshold", Remainder{Available: 49, Line: 100, Forecast: falling(100)}, time.Minute, false},
		{"the line is regained, not the reclaim", Remainder{Hard: true, Available: 100, Line: 100, Forecast: falling(100)}, time.Minute, false},
		{"nothing will be left in time", Remainder{Hard: true, Available: 90, Line: 100, Forecast: falling(3)}, 30 * time.Second, true},
		{"later than the pod could end", Remainder{Hard: true, Available: 90, Line: 100, Forecast: falling(2.9)}, 30 * time.Second, false},
		{"too far ahead to be trusted", Remainder{Hard: true, Available: 90, Line: 100, Forecast: falling(1)}, time.Hour, false},
		{"it recovers", Remainder{Hard: true, Available: 90, Line: 100, Forecast: falling(-5)}, time.Hour, false},
		{"the kubelet's line in time", Remainder{Hard: true, Available: 90, Line: 100, Kubelet: 40, Forecast: falling(2)}, 25 * time.Second, true},
		{"the kubelet's line too late", Remainder{Hard: true, Available: 90, Line: 100, Kubelet: 40, Forecast: falling(2)}, 24 * time.Second, false},
		{"the kubelet's line is met", Remainder{Hard: true, Available: 60, Line: 100, Kubelet: 60}, 0, true},
		{"the kubelet's line is above it", Remainder{Hard: true, Available: 99, Line: 100, Kubelet: 150}, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.left.RunsOut(test.within); got != test.want {
				t.Errorf("runs out: %v, want %v", got, test.want)
			}
		})
	}
}

func TestWithinRequestsProtects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode     WithinRequests
		resource rank.Resource
		runsOut  bool
		want     []string // candidates
	}{
		{"", rank.Memory, false, []string{"exceeds"}},
		{WithinRequestsUntilExhaustion, rank.Memory, false, []string{"exceeds"}},
		{WithinRequestsUntilExhaustion, rank.Memory, true, []string{"exceeds", "exact", "within"}},
		{WithinRequestsUntilExhaustion, rank.Disk, false, []string{"exceeds"}},
		{WithinRequestsUntilExhaustion, rank.Inodes, false, []string{"exceeds"}},
		{WithinRequestsUntilExhaustion, rank.PIDs, false, []string{"exceeds", "exact", "within"}},
		{WithinRequestsAlways, rank.Memory, true, []string{"exceeds"}},
		{WithinRequestsNever, rank.Memory, false, []string{"exceeds", "exact", "within"}},
	} {
		t.Run(string(test.mode)+" "+test.resource.String(), func(t *testing.T) {
			t.Parallel()
			ranking := rank.Order(test.resource, []rank.Pod{
				{Name: "exceeds", Usage: 11, Request: 10, Sampled: true},
				{Name: "exact", Usage: 10, Request: 10, Sampled: true},
				{Name: "within", Usage: 9, Request: 10, Sampled: true},
				{Name: "unread", Request: 10},
			}, rank.Rules{})
			withheld := test.mode.Withhold(&ranking, func(*rank.Pod) bool { return test.runsOut })
			var got []string
			for _, e := range ranking.Candidates {
				got = append(got, e.Pod.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || withheld != 3-len(got) {
				t.Errorf("%d withheld, candidates (-want +got):\n%s", withheld, diff)
			}
			for _, e := range ranking.Protected {
				if want := map[bool]rank.Protection{true: rank.ProtectedNoUsageSample, false: rank.ProtectedWithinRequests}[e.Pod.Name == "unread"]; e.Protection != want {
					t.Errorf("%s is protected as %q", e.Pod.Name, e.Protection)
				}
			}
		})
	}
}
