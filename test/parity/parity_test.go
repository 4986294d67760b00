package parity

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
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
	result, err := Run(t.Context(), seed, states, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d\n%s", seed, result)
	if result.Failed > 0 {
		text, err := Explain(result.Smallest, result.Faults)
		t.Errorf("%d states differ; the smallest of them (%v):\n%s", result.Failed, err, text)
	}
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
// order are the kubelet's for memory. That it ranks by what MemAvailable regains would be found.
func TestKubeletMemoryIsJudgedAndOrderedAsByTheKubelet(t *testing.T) {
	t.Parallel()
	compare := func(ranker Ranker) (orders int, failed bool) {
		for seed := uint64(1); seed <= uint64(few()); seed++ {
			state := onlyMemory(seed)
			report, err := Compare(t.Context(), state, ranker)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if len(report.Unexplained) > 0 && ranker == nil {
				text, err := Explain(state, report.Unexplained)
				t.Errorf("the state of seed %d differs (%v):\n%s", seed, err, text)
			}
			orders += report.Signals[pressure.KubeletMemoryAvailable.String()]
			failed = failed || len(report.Unexplained) > 0
		}
		return orders, failed
	}
	orders, failed := compare(nil)
	t.Logf("%d states, %d orders", few(), orders)
	if orders < few() {
		t.Errorf("only %d orders in %d states were compared", orders, few())
	}
	if failed {
		return
	}
	if _, failed := compare(byKernel); !failed {
		t.Error("an order by what MemAvailable regains was not found")
	}
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

// byKernel ranks kubeletMemory.available by what MemAvailable regains.
func byKernel(
	ctx context.Context, signal pressure.Signal, pods []*nodepods.Pod, source Source, rules rank.Rules,
) (rank.Ranking, error) {
	if signal == pressure.KubeletMemoryAvailable {
		signal = pressure.MemoryAvailable
	}
	return Rank(ctx, signal, pods, source, rules)
}

// planted are bugs in evictd's comparators.
func planted() map[string]func(a, b rank.Entry) int {
	exceeding := func(a, b rank.Entry) int {
		switch {
		case a.Exceeds == b.Exceeds:
			return 0
		case a.Exceeds:
			return -1
		}
		return 1
	}
	priority := func(a, b rank.Entry) int { return cmp.Compare(a.Pod.Priority, b.Pod.Priority) }
	over := func(a, b rank.Entry) int { return cmp.Compare(b.Over, a.Over) }
	return map[string]func(a, b rank.Entry) int{
		"priority before exceeds": func(a, b rank.Entry) int { return cmp.Or(priority(a, b), exceeding(a, b), over(a, b)) },
		"over before priority":    func(a, b rank.Entry) int { return cmp.Or(exceeding(a, b), over(a, b), priority(a, b)) },
		"higher priority first":   func(a, b rank.Entry) int { return cmp.Or(exceeding(a, b), priority(b, a), over(a, b)) },
		"smaller usage first":     func(a, b rank.Entry) int { return cmp.Or(exceeding(a, b), priority(a, b), over(b, a)) },
		"usage, not over request": func(a, b rank.Entry) int {
			return cmp.Or(exceeding(a, b), priority(a, b), cmp.Compare(b.Pod.Usage, a.Pod.Usage))
		},
		"priority that wraps round": func(a, b rank.Entry) int {
			return cmp.Or(exceeding(a, b), int(a.Pod.Priority-b.Pod.Priority), over(a, b))
		},
		"no third step": func(a, b rank.Entry) int { return cmp.Or(exceeding(a, b), priority(a, b)) },
	}
}

// A bug in a comparator is found, and shown on a node of a few pods.
func TestPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	for name, compare := range planted() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := Run(t.Context(), 1, few(), resorted(compare))
			if err != nil {
				t.Fatal(err)
			}
			if result.Failed == 0 {
				t.Fatalf("%d states and nothing was found", result.States)
			}
			if pods := len(result.Smallest.Pods); pods > 5 {
				t.Errorf("the smallest state that was found has %d pods", pods)
			}
			if report, err := Compare(t.Context(), result.Smallest, nil); err != nil || len(report.Unexplained) > 0 {
				t.Errorf("the state fails without the bug too: %v, %v", report, err)
			}
		})
	}
}

// resorted is evictd's ranking in another order.
func resorted(compare func(a, b rank.Entry) int) Ranker {
	return func(
		ctx context.Context, signal pressure.Signal, pods []*nodepods.Pod, source Source, rules rank.Rules,
	) (rank.Ranking, error) {
		ranking, err := Rank(ctx, signal, pods, source, rules)
		slices.SortStableFunc(ranking.Candidates, compare)
		return ranking, err
	}
}

// A pod that is missing from evictd's ranking, or evicted although it is protected, is
// found.
func TestPlantedProtectionIsFound(t *testing.T) {
	t.Parallel()
	lost := func(ranking *rank.Ranking) {
		if n := len(ranking.Candidates); n > 1 {
			ranking.Candidates = ranking.Candidates[:n-1]
		}
	}
	taken := func(ranking *rank.Ranking) {
		ranking.Candidates = append(ranking.Candidates, ranking.Protected...)
		ranking.Protected = nil
	}
	kept := func(ranking *rank.Ranking) {
		if len(ranking.Candidates) > 0 {
			e := ranking.Candidates[0]
			e.Protection = rank.ProtectedNoUsageSample
			ranking.Candidates, ranking.Protected = ranking.Candidates[1:], append(ranking.Protected, e)
		}
	}
	for name, change := range map[string]func(*rank.Ranking){"lost": lost, "taken": taken, "kept": kept} {
		ranker := func(
			ctx context.Context, signal pressure.Signal, pods []*nodepods.Pod, source Source, rules rank.Rules,
		) (rank.Ranking, error) {
			ranking, err := Rank(ctx, signal, pods, source, rules)
			change(&ranking)
			return ranking, err
		}
		result, err := Run(t.Context(), 1, few(), ranker)
		if err != nil {
			t.Fatal(err)
		}
		if result.Failed == 0 {
			t.Errorf("%s: %d states and nothing was found", name, result.States)
		}
	}
}

// The same seed gives the same state.
func TestGenerateIsRepeatable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		a, errA := Explain(Generate(seed), nil)
		b, errB := Explain(Generate(seed), nil)
		if a != b || errA != nil || errB != nil {
			t.Fatalf("seed %d gives two states (%v, %v):\n%s\n%s", seed, errA, errB, a, b)
		}
	}
}

func TestDifferencesAreInTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/ranking.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range Differences() {
		if !strings.Contains(string(page), "| `"+string(d)+"` |") {
			t.Errorf("docs/ranking.md has no line for %s", d)
		}
	}
}
