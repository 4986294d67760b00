package rank

import (
	"slices"
	"testing"
	"time"

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

// ofOthers reports whether a reason depends on other pods (TestGuarantee), on the running agent
// (TestWithhold) or on the threshold (TestSpare), and not on the pod alone.
func ofOthers(p Protection) bool {
	return slices.Contains([]Protection{
		ProtectedWithinGuarantee, ProtectedWithinRequests, ProtectedBackingOff, ProtectedReclaimTooSmall, ProtectedAnnotation, ProtectedTooYoung,
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

// What is spared, at noon, and what is said of it: an annotation until its end, and a pod until it is old enough.
func TestSpare(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	annotated, young := Rules{Annotated: true}, Rules{MinAge: 5 * time.Minute}
	for name, test := range map[string]struct {
		rules Rules
		pod   Pod
		want  Protection
		says  string
	}{
		"plain":               {annotated, Pod{}, NotProtected, ""},
		"annotated":           {annotated, Pod{Annotation: "a/b"}, ProtectedAnnotation, "annotation a/b"},
		"no matter":           {young, Pod{Annotation: "a/b"}, NotProtected, ""},
		"not over":            {annotated, Pod{Annotation: "a/b", AnnotationUntil: noon.Add(1)}, ProtectedAnnotation, "annotation a/b until 2026-03-01T11:00:00Z"},
		"over":                {annotated, Pod{Annotation: "a/b", AnnotationUntil: noon}, NotProtected, ""},
		"young":               {young, Pod{Created: noon.Add(1500*time.Millisecond - 5*time.Minute)}, ProtectedTooYoung, "it is 4m58s old, and protect.minAge is 5m0s"},
		"old":                 {young, Pod{Created: noon.Add(-5 * time.Minute)}, NotProtected, ""},
		"by a clock ahead":    {young, Pod{Created: noon.Add(time.Hour)}, ProtectedTooYoung, "it is 0s old, and protect.minAge is 5m0s"},
		"by one, and no rule": {Rules{}, Pod{Created: noon.Add(time.Hour), Annotation: "a/b"}, NotProtected, ""},
	} {
		test.pod.Sampled = true
		ranking := Order(Memory, []Pod{test.pod}, Rules{})
		spared := test.rules.Spare(&ranking, noon)
		e := slices.Concat(ranking.Candidates, ranking.Protected)[0]
		if e.Protection != test.want || e.Detail != test.says || spared != len(ranking.Protected) {
			t.Errorf("%s: %d spared, as %q, %q", name, spared, e.Protection, e.Detail)
		}
	}
}
