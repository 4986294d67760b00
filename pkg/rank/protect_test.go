package rank

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/internal/testing/ranktest"
)

// protectedPods returns one pod for each reason, and rules under which only that reason
// protects it.
func protectedPods() (map[Protection]Pod, Rules) {
	with := func(change func(*Pod)) Pod {
		p := pod("p", 300, 100, 0)
		change(&p)
		return p
	}
	pods := map[Protection]Pod{
		ProtectedSelf:           with(func(p *Pod) { p.Self = true }),
		ProtectedMirrorPod:      with(func(p *Pod) { p.Mirror = true }),
		ProtectedSystemCritical: with(func(p *Pod) { p.Priority = SystemCriticalPriority }),
		ProtectedTerminating:    with(func(p *Pod) { p.Terminating = true }),
		ProtectedFinished:       with(func(p *Pod) { p.Finished = true }),
		ProtectedDaemonSet:      with(func(p *Pod) { p.DaemonSet = true }),
		ProtectedNoController:   with(func(p *Pod) { p.Owner = "" }),
		ProtectedPinnedToNode:   with(func(p *Pod) { p.Pinned = true }),
		ProtectedPriority:       with(func(p *Pod) { p.Priority = 1000000 }),
		ProtectedNamespace:      with(func(p *Pod) { p.Namespace = "kube-system" }),
		ProtectedPodSelector:    with(func(p *Pod) { p.Labels = map[string]string{"keep": "me"} }),
		ProtectedNoUsageSample:  with(func(p *Pod) { p.Sampled = false }),
	}
	rules := Rules{
		DaemonSets: true, BarePods: true, PinnedPods: true, PriorityAtLeast: 1000000, Namespaces: []string{"kube-system"},
		Selected: func(labels map[string]string) bool { return labels["keep"] == "me" },
	}
	return pods, rules
}

// ofOthers reports whether a reason depends on other pods (TestGuarantee) or on the running
// agent (TestWithhold), and not on the pod alone.
func ofOthers(p Protection) bool {
	return slices.Contains([]Protection{
		ProtectedWithinGuarantee, ProtectedWithinRequests, ProtectedBackingOff, ProtectedReclaimTooSmall,
	}, p)
}

// The protections that no configuration can lift apply under empty rules.
func TestInvariant02NoRulesLiftTheFixedProtections(t *testing.T) {
	t.Parallel()
	pods, rules := protectedPods()
	var none Rules
	var lifted []Protection
	for _, declared := range ranktest.Protections(t, "protect.go") {
		reason := Protection(declared)
		if ofOthers(reason) {
			continue
		}
		p, there := pods[reason]
		if got := rules.Protects(&p); !there || got != reason {
			t.Errorf("%q: a pod in this test: %t, protected for %q", reason, there, got)
		}
		if none.Protects(&p) == NotProtected {
			lifted = append(lifted, reason)
		}
	}
	want := []Protection{
		ProtectedDaemonSet, ProtectedNoController, ProtectedPinnedToNode, ProtectedPriority, ProtectedNamespace, ProtectedPodSelector,
	}
	slices.Sort(want)
	slices.Sort(lifted)
	if diff := cmp.Diff(want, lifted); diff != "" {
		t.Errorf("lifted by empty rules (-want +got):\n%s", diff)
	}
	if plain := pod("plain", 300, 100, 999999); rules.Protects(&plain) != NotProtected {
		t.Errorf("a plain pod is protected: %q", rules.Protects(&plain))
	}
}

// Guards invariant 2: a protected pod is never a victim, whatever its usage.
func TestInvariant02ProtectedIsNeverACandidate(t *testing.T) {
	t.Parallel()
	pods, rules := protectedPods()
	var all []Pod
	for reason, p := range pods {
		p.Usage, p.Name, p.UID = 1<<50, string(reason), string(reason)
		all = append(all, p)
	}
	for _, resource := range []Resource{Memory, Disk, Inodes, PIDs} {
		ranking := Order(resource, all, rules)
		if len(ranking.Candidates) != 0 || len(ranking.Protected) != len(all) {
			t.Errorf("%v: candidates %v, %d protected, want %d", resource, namesOf(ranking.Candidates), len(ranking.Protected), len(all))
		}
	}
}
