package pools

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/pkg/rank"
)

func TestWorkloadOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ owner, hash, want string }{
		{"", "", ""},
		{"ReplicaSet/web-5d4", "5d4", "shop/Deployment/web"},
		{"ReplicaSet/web-5d4", "", "shop/ReplicaSet/web-5d4"},
		{"ReplicaSet/web-5d4", "6e5", "shop/ReplicaSet/web-5d4"},
		{"ReplicaSet/-5d4", "5d4", "shop/ReplicaSet/-5d4"},
		{"ReplicaSet/web5d4", "5d4", "shop/ReplicaSet/web5d4"},
		{"StatefulSet/db-5d4", "5d4", "shop/StatefulSet/db-5d4"},
		{"Job/night", "", "shop/Job/night"},
	} {
		pod := &rank.Pod{Namespace: "shop", Owner: c.owner}
		if c.hash != "" {
			pod.Labels = map[string]string{"pod-template-hash": c.hash}
		}
		if got := WorkloadOf(pod); got != c.want {
			t.Errorf("%s with hash %q: %q, want %q", c.owner, c.hash, got, c.want)
		}
	}
}

func TestPoolsOfAPod(t *testing.T) {
	t.Parallel()
	owned, bare := rank.Pod{Namespace: "shop", Owner: "Job/night"}, rank.Pod{Namespace: "shop"}
	for name, c := range map[string]struct {
		limits Limits
		pod    rank.Pod
		want   []Pool
	}{
		"no limit":                    {Limits{}, owned, nil},
		"of the workload":             {Limits{PerWorkload: 2}, owned, []Pool{{"shop/Job/night", 2}}},
		"of both":                     {Limits{PerWorkload: 2, PerCluster: 5}, owned, []Pool{{"shop/Job/night", 2}, {"cluster", 5}}},
		"a pod without a workload":    {Limits{PerWorkload: 2}, bare, nil},
		"of the cluster, without one": {Limits{PerWorkload: 2, PerCluster: 5}, bare, []Pool{{"cluster", 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, c.limits.Of(&c.pod)); diff != "" {
				t.Errorf("pools (-want +got):\n%s", diff)
			}
		})
	}
}
