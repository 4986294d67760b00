package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// The line is at 100, the kubelet's where it is known.
func TestRunsOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		soft           bool
		left, kubelets int64
		want           bool
	}{
		"below the line":                       {false, 99, 0, false},
		"half of the line is left":             {false, 50, 0, false},
		"less than half of it":                 {false, 49, 0, true},
		"a soft threshold":                     {true, 49, 0, false},
		"the line is regained":                 {false, 100, 150, false},
		"the kubelet's line is near":           {false, 61, 60, false},
		"the kubelet's line is met":            {false, 60, 60, true},
		"the kubelet's line is above evictd's": {false, 99, 150, true},
	} {
		p := pressure.Pressure{Line: 100, Threshold: pressure.Threshold{Hard: !test.soft}, Observed: pressure.Observation{Available: test.left}}
		if got := RunsOut(&p, test.kubelets); got != test.want {
			t.Errorf("%s: runs out: %v, want %v", name, got, test.want)
		}
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
			withheld := test.mode.Withhold(&ranking, test.runsOut)
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
