package parity

import (
	"os"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/kubelet/eviction"

	"github.com/evictd/evictd/pkg/pressure"
)

// What evictd accepts means the same to the kubelet, and what only evictd rejects has a
// name.
func TestGrammar(t *testing.T) {
	t.Parallel()
	configurations := 15 * few()
	refused, accepted := map[Refusal]int{}, 0
	for seed := range uint64(configurations) {
		thresholds := GenerateThresholds(seed)
		verdict, err := CompareGrammar(thresholds)
		if err != nil {
			t.Fatalf("seed %d, %+v: %v", seed, thresholds, err)
		}
		for _, fault := range verdict.Unexplained {
			t.Errorf("seed %d, %+v: %s", seed, thresholds, fault)
		}
		for reason := range verdict.Refused {
			refused[reason]++
		}
		if verdict.Accepted {
			accepted++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	t.Logf("%d configurations: both accept %d; refused by evictd alone: %v", configurations, accepted, refused)
	if accepted < configurations/10 {
		t.Errorf("only %d of %d configurations are accepted: hardly any meaning is compared", accepted, configurations)
	}
	for _, reason := range Refusals() {
		if refused[reason] == 0 {
			t.Errorf("%s never came up", reason)
		}
	}
}

func TestRefusalsAreInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range Refusals() {
		if !strings.Contains(string(page), "| `"+string(reason)+"` |") {
			t.Errorf("docs/configuration.md has no line for %s", reason)
		}
	}
}

// Guards the line on allocatableMemory.available in docs/configuration.md: the kubelet
// copies it only from hard memory.available thresholds.
func TestAllocatableCopies(t *testing.T) {
	t.Parallel()
	hard := map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"}
	soft := map[string]string{"memory.available": "200Mi"}
	thresholds, err := eviction.ParseThresholdConfig([]string{"pods"}, hard, soft, map[string]string{"memory.available": "30s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	copies := 0
	for i := range thresholds {
		if thresholds[i].Signal == "allocatableMemory.available" {
			copies++
			if thresholds[i].Value.Quantity.Value() != 100<<20 || thresholds[i].GracePeriod != 0 {
				t.Errorf("the copy is %+v", thresholds[i])
			}
		}
	}
	own, err := (&Thresholds{Hard: hard, Soft: soft, Grace: map[string]string{"memory.available": "30s"}}).evictd()
	if err != nil {
		t.Fatal(err)
	}
	if copies != 1 || len(thresholds) != len(own)+1 {
		t.Errorf("the kubelet has %d thresholds with %d copies, evictd %d", len(thresholds), copies, len(own))
	}
}

// Guards what docs/configuration.md says of signals that only evictd has: the kubelet rejects them.
func TestSignalsThatTheKubeletDoesNotHave(t *testing.T) {
	t.Parallel()
	for _, signal := range pressure.Signals() {
		_, err := eviction.ParseThresholdConfig(nil, map[string]string{signal.String(): "10%"}, nil, nil, nil)
		if (err == nil) != isKubelets(signal) {
			t.Errorf("%v: the kubelet has it: %v; it says %v", signal, isKubelets(signal), err)
		}
	}
}
