package agent

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestOneShortageIsOneIncident: one shortage is one incident. It does not end because the threshold
// is only just met, because the hard threshold follows the soft one, after an edit, or after two
// readings that fail. Its last line names the pods that were evicted and what others did.
func TestOneShortageIsOneIncident(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := newFakeNode(1000)
		n.run("greedy", 400, 10)
		n.run("killed", 20, 10)
		n.host = 490 * mebi
		policy := jitteryPolicy()
		policy.Transition = time.Minute
		kills := int64(3)
		a := newAgent(t, n, policy, func(o *Options) { o.OOMKills = func() (int64, error) { return kills, nil } })
		n.after(2*time.Second, func() { n.host -= 110 * mebi }) // the line is touched
		n.after(3*time.Second, func() { n.host += 110 * mebi })
		n.after(5*time.Second, func() { n.unknown = errPlanted() })
		n.after(7*time.Second, func() { n.unknown = nil })
		time.AfterFunc(9*time.Second, func() { a.Reload(t.Context(), enforced(policy), n) })
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

// TestFaultOldKubeletVictimsPushTheIncidentOutOfTheState: thousands of pods that the kubelet
// evicted before an incident may still be listed: the state keeps the incident all the same, and
// counts none of them as evicted during it.
func TestFaultOldKubeletVictimsPushTheIncidentOutOfTheState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const old = 1200 // with long UIDs, for 7000
		n, f := newFakeNode(1000), &file{t: t}
		n.run("greedy", 200, 10)
		began := time.Now()
		evictedAt := func(at time.Time) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.UID = types.UID(fmt.Sprintf("%s-%0240d", p.UID, 0))
				p.CreationTimestamp = metav1.NewTime(began.Add(-time.Hour))
				p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted"
				p.Status.Conditions = []corev1.PodCondition{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
					LastTransitionTime: metav1.NewTime(at),
				}}
			}
		}
		for i := range old {
			n.run(fmt.Sprintf("old%d", i), 0, 0, evictedAt(began.Add(-time.Duration(i)*time.Second)))
		}
		for _, p := range n.pods {
			p.noCgroup = p.api.Status.Phase == corev1.PodFailed
		}
		n.host = 750 * mebi
		time.AfterFunc(3*time.Second, func() { n.run("during", 0, 0, evictedAt(time.Now())) })
		policy := hardPolicy()
		policy.Transition = 5 * time.Second
		var killed *file
		time.AfterFunc(time.Second, func() { killed = f.copied() })
		live(t, n, f, policy, 1100*time.Millisecond)
		if open := killed.load().Incidents; len(open) != 1 {
			t.Fatalf("%d incidents are kept, want the one that is open", len(open))
		}
		live(t, n, killed, policy, 12*time.Second)
		if len(n.incidents) != 1 || !slices.Equal(n.incidents[0].During.Kubelets, []string{"shop/during"}) {
			t.Errorf("%d incidents ended: %.300v, want one in which one pod was evicted", len(n.incidents), n.incidents)
		}
	})
}
