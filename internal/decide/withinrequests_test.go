package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/rank"
)

// The line is at 100, the kubelet's where it is known.
func TestRunsOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left Remainder
		want bool
	}{
		"below the line":                       {Remainder{Hard: true, Available: 99, Line: 100}, false},
		"half of the line is left":             {Remainder{Hard: true, Available: 50, Line: 100}, false},
		"less than half of it":                 {Remainder{Hard: true, Available: 49, Line: 100}, true},
		"a soft threshold":                     {Remainder{Available: 49, Line: 100}, false},
		"the line is regained":                 {Remainder{Hard: true, Available: 100, Line: 100, Kubelet: 150}, false},
		"the kubelet's line is near":           {Remainder{Hard: true, Available: 61, Line: 100, Kubelet: 60}, false},
		"the kubelet's line is met":            {Remainder{Hard: true, Available: 60, Line: 100, Kubelet: 60}, true},
		"the kubelet's line is above evictd's": {Remainder{Hard: true, Available: 99, Line: 100, Kubelet: 150}, true},
	} {
		if got := test.left.RunsOut(); got != test.want {
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
