package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// One shortage is one incident: a touch of the line, the hard threshold after the soft one, an
// edit and two readings that fail do not end it, and its last line knows who went and what
// others did.
func TestOneShortageIsOneIncident(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 400, 10)
		n.run("killed", 20, 10)
		n.host = 490 * mebi
		policy := jitteryPolicy()
		policy.Transition = time.Minute
		a := newAgent(t, n, policy)
		kills := int64(3)
		a.options.OOMKills = func() (int64, error) { return kills, nil }
		n.after(2*time.Second, func() { n.host -= 110 * mebi }) // the line is touched
		n.after(3*time.Second, func() { n.host += 110 * mebi })
		n.after(5*time.Second, func() { n.unknown = errPlanted() })
		n.after(7*time.Second, func() { n.unknown = nil })
		time.AfterFunc(9*time.Second, func() { a.Reload(t.Context(), policy, n) })
		n.after(12*time.Second, func() { n.host += 60 * mebi }) // hard
		n.after(14*time.Second, func() {
			kills = 5
			evicted := n.pods["uid-killed"].api.DeepCopy()
			evicted.Status.Phase, evicted.Status.Reason = corev1.PodFailed, "Evicted"
			n.pods["uid-killed"].api, n.pods["uid-killed"].noCgroup = evicted, true
		})
		runFor(t, a, 3*time.Minute)
		n.wantVictims(t, "greedy")
		if len(n.incidents) != 1 {
			t.Fatalf("incidents: %+v, want one", n.incidents)
		}
		i := &n.incidents[0]
		if len(i.Victims) != 1 || i.Victims[0].Pod != "shop/greedy" || i.During.OOMKills != 2 || !slices.Equal(i.During.Kubelets, []string{"shop/killed"}) {
			t.Errorf("got %+v", i)
		}
		for _, d := range n.decisions {
			if d.Incident != i.ID {
				t.Errorf("decision %d is of incident %q, want %q", d.ID, d.Incident, i.ID)
			}
		}
	})
}
