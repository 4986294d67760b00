package parity

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// few is how many states the ordinary tests compare, a tenth of it with -short; `make parity` compares
// more, with another seed each time.
func few() int {
	if testing.Short() {
		return 200
	}
	return 2000
}

// TestParity compares STATES states, the first of which has the seed SEED, or few.
func TestParity(t *testing.T) {
	t.Parallel()
	states, seed := few(), uint64(1)
	_, isAsked := fmt.Sscan(os.Getenv("STATES")+" "+os.Getenv("SEED"), &states, &seed) // an error where it is not
	result := noneDiffers(t, seed, states, Generate)
	if isAsked == nil {
		return
	}
	for _, signal := range pressure.Signals() {
		if orders := result.Signals[signal.String()]; orders == 0 && configurable(signal) {
			t.Errorf("no order for %v was compared: %v", signal, result.Signals)
		}
	}
	for _, d := range Differences() {
		if result.Named[d] == 0 && !testing.Short() { // the rarest are in one of four hundred states
			t.Errorf("no state has the difference %s", d)
		}
	}
	if result.States != few() || result.Largest < 200 {
		t.Errorf("%d states, the largest of %d pods", result.States, result.Largest)
	}
}

// configurable reports whether a threshold may use the signal.
func configurable(signal pressure.Signal) bool {
	return signal != pressure.MemoryStall && !strings.HasPrefix(signal.String(), "containerfs.")
}

// With kubeletMemory.available and the shipped measure of memory.available, evictd's verdicts and
// order are the kubelet's for memory.
func TestKubeletMemoryIsJudgedAndOrderedAsByTheKubelet(t *testing.T) {
	t.Parallel()
	result := noneDiffers(t, 1, few(), onlyMemory)
	if orders := result.Signals[pressure.KubeletMemoryAvailable.String()]; orders < few() {
		t.Errorf("only %d orders in %d states were compared", orders, few())
	}
}

// noneDiffers compares states, and fails the test where one differs without a name.
func noneDiffers(t *testing.T, seed uint64, states int, generate func(uint64) *State) *Result {
	t.Helper()
	result, err := Run(t.Context(), seed, states, generate)
	must(t, err)
	t.Logf("seed %d\n%s", seed, result)
	if result.Failed > 0 {
		text, err := result.Explain()
		t.Fatalf("%d states differ; the smallest of them (%v):\n%s", result.Failed, err, text)
	}
	return result
}

// onlyMemory is a state of which evictd has thresholds on kubeletMemory.available alone.
func onlyMemory(seed uint64) *State {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x6d656d6f7279))}
	s := Generate(seed)
	s.Thresholds = Thresholds{
		Hard: map[string]string{}, Soft: map[string]string{}, Grace: map[string]string{}, Reclaim: map[string]string{},
		Transition: s.Thresholds.Transition,
	}
	g.threshold(&s.Thresholds, pressure.MemoryAvailable)
	s.KubeletMemory, s.Readings = true, nil
	s.Readings = g.readings(s)
	return s
}

// must ends the test where something failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
