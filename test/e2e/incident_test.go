//go:build e2e_all

package e2e

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// In a dry run no pod is evicted, and the shortage is reported once for each pod that would
// have been: first the pod that causes the pressure, then the pods that start in addition,
// until the kubelet evicts by its own line. The last line of the incident reports the
// kubelet's evictions. The kubelet looks every 10 s: this test is in e2e-all only.
func TestDryRunTellsTheTruth(t *testing.T) {
	const (
		firstMiB, secondMiB, greedyMiB = 600, 400, 4000
		kubeletsMiB                    = 2500 // below what is available then
	)
	on(t, oneDisk)
	s := emptyScene(t)
	first := deployWorker(s, node.Workload{Name: "first", UsesMiB: firstMiB, AsksMiB: 10, LimitMiB: firstMiB + 100})
	second := deployWorker(s, node.Workload{Name: "second", UsesMiB: secondMiB, AsksMiB: secondMiB + 50, LimitMiB: secondMiB + 100})
	greedy := deployWorker(s, node.Workload{
		Name: "greedy", UsesMiB: greedyMiB, AsksMiB: 10, LimitMiB: greedyMiB + 100,
		Flags: []string{"--memory-rate=400Mi"},
	})
	s.threshold(node.PodMemory, headroom, true, "evictionPressureTransitionPeriod: 10s\n")
	s.until("the incidents of earlier tests are over", func(ctx context.Context) bool {
		began, ended := incidentLines(ctx, s)
		return len(began) == len(ended)
	})
	_, before := incidentLines(t.Context(), s)
	second.works()
	first.works()
	s.until("a decision names the first pod", func(ctx context.Context) bool {
		_, named := s.decisionAbout(ctx, &first.Pod)
		return named
	})
	s.kubeletEvicts(map[string]string{node.NodeMemory: strconv.FormatInt(kubeletsMemory(s)-kubeletsMiB<<20, 10)})
	greedy.works()
	s.until("the kubelet has evicted a pod", func(ctx context.Context) bool { return len(s.evictedByTheKubelet(ctx)) > 0 })
	var ended []incidentLine
	s.until("the incident is over", func(ctx context.Context) bool {
		_, ended = incidentLines(ctx, s)
		return len(ended) > len(before)
	})
	if ended = ended[len(before):]; len(ended) != 1 {
		t.Fatalf("%d incidents, want one: %+v", len(ended), ended)
	}
	last := ended[0]
	t.Logf("%+v", last)
	for _, victim := range []*worker{first, greedy} {
		if times := timesNamed(s, victim); times != 1 {
			t.Errorf("%s was named %d times, want once", victim.Name, times)
		}
		if !slices.Contains(last.Victims, victim.Namespace+"/"+victim.Name) {
			t.Errorf("the last line does not name %s: %q", victim.Name, last.Victims)
		}
	}
	if times := timesNamed(s, second); times != 0 || len(last.Victims) != 2 {
		t.Errorf("second was named %d times, and the last line names %q", times, last.Victims)
	}
	// Any of them may be evicted: the kubelet has just been started, and has not measured
	// its pods yet.
	for _, name := range s.evictedByTheKubelet(t.Context()) {
		if !slices.Contains(last.KubeletEvictions, s.namespace+"/"+name) {
			t.Errorf("the last line does not say that the kubelet evicted %s: %q", name, last.KubeletEvictions)
		}
	}
}

// incidentLine is the log line of an incident; of its end, the fields that tests read.
type incidentLine struct {
	Message          string   `json:"msg"`
	Incident         string   `json:"incident"`
	Victims          []string `json:"would_be_victims"`
	KubeletEvictions []string `json:"kubelet_evictions"`
}

// incidentLines returns the lines of all incidents that began and that ended, oldest first.
func incidentLines(ctx context.Context, s *scene) (began, ended []incidentLine) {
	s.Helper()
	lines, err := logLines[incidentLine](ctx)
	s.must(err)
	for _, i := range lines {
		switch i.Message {
		case "incident began":
			began = append(began, i)
		case "incident ended":
			ended = append(ended, i)
		}
	}
	return began, ended
}

// timesNamed returns how many requests there were for the pod.
func timesNamed(s *scene, t *worker) int {
	s.Helper()
	decisions, err := live.Decisions(s.Context())
	s.must(err)
	times := 0
	for _, d := range decisions {
		for _, a := range d.Attempts {
			if a.UID == string(t.UID) {
				times++
			}
		}
	}
	return times
}
