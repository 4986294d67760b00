package table

import (
	"os/exec"
	"strings"
	"testing"
)

func TestFaultsAreFaults(t *testing.T) {
	var all strings.Builder
	for _, name := range []string{
		"SampleMemory", "Judge", "TickCalm110", "Collect110/real", "Collect110/charged", "Rank110", "Rank5000", "TickWaits110", "TickDecides110",
	} {
		all.WriteString("Benchmark" + name + "-2 1 9000 ns/op 12 p50-µs 7 B/op 0 allocs/op\n")
	}
	for name, c := range map[string]struct{ text, want string }{
		"kept":       {all.String(), "| BenchmarkCollect110/real | 9 | ≤ 2000: kept | 7 | 0 | ≤ 3: kept |"},
		"slow":       {strings.Replace(all.String(), "Rank110-2 1 9000", "Rank110-2 1 31000", 1), "≤ 30: MISSED"},
		"allocating": {strings.Replace(all.String(), "0 allocs/op", "1 allocs/op", 1), "SampleMemory allocates 1 times"},
		"missing":    {"BenchmarkX-2 12 5 ns/op\ngoos: linux\n", "Judge did not run"},
		"failed":     {all.String() + "--- FAIL: BenchmarkX\n", "a benchmark failed"},
	} {
		awk := exec.CommandContext(t.Context(), "awk", "-f", "table.awk")
		awk.Stdin = strings.NewReader(c.text)
		got, err := awk.CombinedOutput()
		if isFault := name != "kept" && name != "slow"; (err != nil) != isFault || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %v, want %q:\n%s", name, err, c.want, got)
		}
	}
}
