package main

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	got, is := parse("BenchmarkCollect110/real-2   45   1397344 ns/op   12 p50-µs   272 B/op   3 allocs/op")
	if want := (result{name: "Collect110/real", time: 1397344 * time.Nanosecond, bytes: 272, allocs: 3}); !is || got != want {
		t.Errorf("got %+v, %v, want %+v", got, is, want)
	}
	for _, line := range []string{"", "ok  pkg 1.2s", "BenchmarkX-2 12 5 ns/op", "goos: linux"} {
		if got, is := parse(line); is {
			t.Errorf("%q: read as %+v", line, got)
		}
	}
}

func TestFaultsAreFaults(t *testing.T) {
	var all strings.Builder
	for _, b := range budgets() {
		all.WriteString("Benchmark" + b.name + "-2 1 9 ns/op 0 B/op 0 allocs/op\n")
	}
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"kept":       {all.String(), ""},
		"allocating": {strings.Replace(all.String(), "0 allocs/op", "1 allocs/op", 1), "allocates 1 times"},
		"missing":    {"", "did not run"},
		"failed":     {all.String() + "--- FAIL: BenchmarkX\n", "failed"},
	} {
		var out strings.Builder
		err := run(strings.NewReader(c.text), &out)
		if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
