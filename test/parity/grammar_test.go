package parity

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

// refusal is the name of a configuration value that the kubelet accepts and evictd rejects. Each has a
// line in docs/configuration.md, which these tests follow, and not evictd's code.
type refusal string

const (
	otherHundred      refusal = "100-percent-in-other-words"
	otherZero         refusal = "0-percent-in-other-words"
	reclaimEverything refusal = "reclaim-of-everything"
)

// texts are values that one of the two might take differently, by evictd's refusal: those of "" mean the same to both, or
// both refuse them.
func texts() map[refusal][]string {
	return map[refusal][]string{
		otherHundred:            {"100.0%", "1e2%", "99.999999%", "99.9999999%"},
		otherZero:               {"-0%", "0.0%", "1e-60%"},
		"nan-percent":           {"NaN%", "nan%"},
		"several-percent-signs": {"10%%"},
		"thousandths":           {"100m", "1500m", "1u", "5n"},
		"not-whole":             {"0.5", "1.5", "1e-3"},
		"too-large": {
			"2Ei", "8E", "1e19", "1e300", "1000000000000000000000000000000001", "0.000000000000000000000000000000001",
		},
		reclaimEverything: {"100%", "101%", "200%", "Inf%"},
		"": {
			"0%", "+5%", "5.%", ".5%", "0x10p-2%", "1_0%", "33.3333333%", "10.5%", "15%", "5%", "0.1%", "50%", "50.0%",
			"2.0", "1e3", "1E3", "1e18", "1e+3", "+5", "00012", "1.3Gi", "0.1Ki", "1Ei", "1E", "1.0000000000Gi", "0",
			"-1", "-100Mi", "", "1Zi", "100mi", "100MB", "1,5Gi", "1Gi ", "١", "-Inf%", "10..5%", "%", " 5%", "5 %", "-5%", "5%5%",
		},
	}
}

// ordinary returns values as an administrator writes them.
func ordinary() (values []string) {
	g := &generator{Rand: rand.New(rand.NewPCG(1, 2))}
	for range 40 {
		values = append(values,
			percentage(1+g.IntN(999)),
			strconv.FormatFloat(1+g.Float64()*98, 'f', g.IntN(9), 64)+"%",
			strconv.FormatInt(1+g.Int64N(1<<(1+g.IntN(60))), 10),
			fmt.Sprintf("%d%s", 1+g.IntN(2000), g.pick("Ki", "Mi", "Gi", "k", "M", "G", "e3", "E6", "")),
			fmt.Sprintf("%d.%d%s", g.IntN(20), 1+g.IntN(999), g.pick("Mi", "Gi", "M", "G", "e3", "Ti")))
	}
	return values
}

// evictd returns the thresholds as evictd reads them from a file.
func (t *Thresholds) evictd() ([]pressure.Threshold, error) {
	text := func(texts map[string]string) map[string]string {
		if texts == nil {
			return map[string]string{} // a missing map means the defaults
		}
		return texts
	}
	file, err := yaml.Marshal(map[string]any{
		"apiVersion": config.APIVersion, "kind": config.Kind,
		"evictionHard": text(t.Hard), "evictionSoft": text(t.Soft),
		"evictionSoftGracePeriod": text(t.Grace), "evictionMinimumReclaim": text(t.Reclaim),
	})
	if err != nil {
		return nil, fmt.Errorf("writing a configuration: %w", err)
	}
	c, err := config.Parse(file)
	if err != nil {
		return nil, err
	}
	return c.Thresholds(), nil
}

// refusedPath gives a configuration to both parsers. It returns the path that evictd alone refuses, and "" where both do
// the same. It fails the test where evictd refuses several, or what both accept means something else to one of them.
func refusedPath(t *testing.T, thresholds *Thresholds) (path string) {
	t.Helper()
	kubelets, kubeletErr := thresholds.kubelet()
	evictds, err := thresholds.evictd()
	var invalid utilerrors.Aggregate
	switch {
	case err == nil && kubeletErr != nil:
		t.Errorf("%+v: only evictd accepts it; the kubelet says %v", thresholds, kubeletErr)
	case err == nil:
		meansTheSame(t, thresholds, kubelets, evictds)
	case !errors.As(err, &invalid):
		t.Errorf("%+v: giving evictd the configuration: %v", thresholds, err)
	case kubeletErr == nil:
		for _, fault := range invalid.Errors() {
			at, _, _ := strings.Cut(fault.Error(), ": ")
			if path != "" && path != at {
				t.Errorf("%+v: %v", thresholds, err)
			}
			path = at
		}
	}
	return path
}

// meansTheSame compares the meaning of an accepted configuration for both.
func meansTheSame(t *testing.T, thresholds *Thresholds, kubelets []evictionapi.Threshold, evictds []pressure.Threshold) {
	t.Helper()
	var theirs, ours []string
	for i := range kubelets {
		one := &kubelets[i]
		reclaim := evictionapi.ThresholdValue{Quantity: new(resource.Quantity)}
		if one.MinReclaim != nil {
			reclaim = *one.MinReclaim
		}
		theirs = append(theirs, fmt.Sprintf("%v %v %v %v", one.Signal, one.GracePeriod, amounts(quantityOf(one.Value)), amounts(quantityOf(reclaim))))
	}
	for _, one := range evictds {
		ours = append(ours, fmt.Sprintf("%v %v %v %v", one.Signal, one.Grace, amounts(one.Quantity.Of), amounts(one.MinReclaim.Of)))
		if one.Hard != (one.Grace == 0) {
			t.Errorf("%v is hard for one of the two only", one)
		}
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(theirs, ours) {
		t.Errorf("%+v means, at several capacities:\nevictd:  %v\nkubelet: %v", thresholds, ours, theirs)
	}
}

// amounts are those at capacities of nodes of all sizes, and where a float32 percentage and an exact one differ.
func amounts(of func(int64) int64) (all []int64) {
	for _, capacity := range []int64{0, 1, 99, 32768, 1 << 30, 16777217, 107374182400, 4398046511103, 1 << 53} {
		all = append(all, of(capacity))
	}
	return all
}

func quantityOf(value evictionapi.ThresholdValue) func(int64) int64 {
	return func(capacity int64) int64 {
		return evictionapi.GetThresholdQuantity(value, resource.NewQuantity(capacity, resource.BinarySI)).Value()
	}
}

// What evictd accepts means the same to the kubelet, and what only evictd rejects has a name: each text for each signal,
// as each kind of value.
func TestGrammarOfValues(t *testing.T) {
	t.Parallel()
	every := texts()
	every[""] = append(every[""], ordinary()...)
	for reason, all := range every {
		refusedAsLine, refusedAsReclaim := reason, reason
		switch reason {
		case otherHundred:
			refusedAsReclaim = reclaimEverything
		case otherZero:
			refusedAsReclaim = ""
		case reclaimEverything:
			refusedAsLine = ""
		}
		for _, text := range all {
			for _, signal := range pressure.Signals() {
				if !isKubelets(signal) || strings.HasPrefix(signal.String(), "containerfs.") {
					continue
				}
				value := map[string]string{signal.String(): text}
				grace := map[string]string{signal.String(): "30s"}
				refuses(t, refusedAsLine, "evictionHard", signal, &Thresholds{Hard: value})
				refuses(t, refusedAsLine, "evictionSoft", signal, &Thresholds{Soft: value, Grace: grace})
				line := map[string]string{signal.String(): "1"}
				refuses(t, refusedAsReclaim, "evictionMinimumReclaim", signal, &Thresholds{Hard: line, Reclaim: value})
			}
		}
	}
}

// refuses fails the test unless evictd alone refuses the value, or, without a reason, both do the same.
func refuses(t *testing.T, reason refusal, of string, signal pressure.Signal, thresholds *Thresholds) {
	t.Helper()
	want := ""
	if reason != "" {
		want = of + "[" + signal.String() + "]"
	}
	if got := refusedPath(t, thresholds); got != want {
		t.Errorf("%+v: evictd alone refuses %q, want %q: %q", thresholds, got, want, reason)
	}
}

// Two values of one signal: soft-not-above-hard, and reclaim-of-everything together with a threshold.
func TestGrammarOfTwoValues(t *testing.T) {
	t.Parallel()
	const signal = pressure.MemoryAvailable
	name := signal.String()
	every := append(texts()[""], "100%")
	for _, hard := range every {
		for _, other := range every {
			soft := &Thresholds{Hard: map[string]string{name: hard}, Soft: map[string]string{name: other}, Grace: map[string]string{name: "30s"}}
			reclaim := &Thresholds{Hard: map[string]string{name: hard}, Reclaim: map[string]string{name: other}}
			var notAbove, everything refusal
			if both, err := soft.kubelet(); err == nil && len(both) == 2 {
				line, higher := both[0].Value, both[1].Value
				if both[0].GracePeriod > 0 {
					line, higher = higher, line
				}
				if (line.Quantity == nil) == (higher.Quantity == nil) && quantityOf(higher)(1<<53) <= quantityOf(line)(1<<53) {
					notAbove = "soft-not-above-hard"
				}
			}
			one, err := reclaim.kubelet()
			if err == nil && len(one) == 1 && one[0].MinReclaim != nil && one[0].MinReclaim.Percentage+one[0].Value.Percentage >= 1 || other == "100%" {
				everything = reclaimEverything
			}
			if err != nil {
				everything = ""
			}
			refuses(t, notAbove, "evictionSoft", signal, soft)
			refuses(t, everything, "evictionMinimumReclaim", signal, reclaim)
		}
	}
}

func TestGrammarOfMaps(t *testing.T) {
	t.Parallel()
	const name = "memory.available"
	five, grace := map[string]string{name: "5%"}, map[string]string{name: "30s"}
	tests := map[string]*Thresholds{
		"":                                      {Soft: five, Grace: grace, Reclaim: five},
		"evictionSoftGracePeriod[" + name + "]": {Hard: five, Grace: grace},
		"evictionMinimumReclaim[" + name + "]":  {Hard: map[string]string{"nodefs.available": "5%"}, Reclaim: five},
		"evictionHard[containerfs.available]":   {Hard: map[string]string{"containerfs.available": "5%"}},
		"evictionHard[containerfs.inodesFree]":  {Hard: map[string]string{"containerfs.inodesFree": "5%"}},
	}
	for want, thresholds := range tests {
		if got := refusedPath(t, thresholds); got != want {
			t.Errorf("%+v: evictd alone refuses %q, want %q", thresholds, got, want)
		}
	}
	for _, text := range []string{"30s", "1m30s", "0s", "0", "1h", "30", "-1s", "30mins", ""} {
		if got := refusedPath(t, &Thresholds{Soft: five, Grace: map[string]string{name: text}}); got != "" {
			t.Errorf("%q: evictd alone refuses %q", text, got)
		}
	}
	for _, signal := range []string{"Memory.available", "cpu.available", "", "memory.available "} {
		if got := refusedPath(t, &Thresholds{Hard: map[string]string{signal: "5%"}}); got != "" {
			t.Errorf("%q: evictd alone refuses %q", signal, got)
		}
	}
}

func TestNamesAreInTheDocs(t *testing.T) {
	t.Parallel()
	names := map[string][]string{
		"configuration.md": {"soft-not-above-hard", "grace-without-threshold", "reclaim-without-threshold", "containerfs"},
	}
	for reason := range texts() {
		if reason != "" {
			names["configuration.md"] = append(names["configuration.md"], string(reason))
		}
	}
	for _, d := range Differences() {
		names["ranking.md"] = append(names["ranking.md"], string(d))
	}
	for file, all := range names {
		page, err := os.ReadFile("../../docs/" + file)
		must(t, err)
		for _, name := range all {
			if !strings.Contains(string(page), "| `"+name+"` |") {
				t.Errorf("docs/%s has no line for %s", file, name)
			}
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
	must(t, err)
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
	must(t, err)
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
