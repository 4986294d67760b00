package cgroup2

import (
	"os/exec"
	"strings"
	"testing"
)

// What is called a failure, and what is not.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, prefix, expected, output, want string // want is a part of what is said; "" is no failure
	}{
		{"a pass", "", "TestA", "=== RUN   TestA\r\n--- PASS: TestA (1.00s)\r\n", ""},
		{"none ran", "", "", "evictd-vm: nothing\r\nPASS\r\n", "no test ran"},
		{"an expected one is missing", "", "TestA\nTestB", "=== RUN   TestA\n--- PASS: TestA (1.00s)\n", "TestB"},
		{"one that was not expected fails", "", "", "=== RUN   TestA\n--- FAIL: TestA (1.00s)\n", "TestA"},
		{"one does not end", "", "", "=== RUN   TestA\n", "TestA"},
		{"one is skipped", "", "", "=== RUN   TestA\n--- SKIP: TestA (0.00s)\n", "TestA"},
		{"a part is skipped", "", "", "=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (1.00s)\n    --- SKIP: TestA/b (0.00s)\n", "TestA/b"},
		{"an expected part passes", "", "TestA/b", "=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (1.00s)\n    --- PASS: TestA/b (1.00s)\n", ""},
		{"an expected part is missing", "", "TestA/b", "=== RUN   TestA\n--- PASS: TestA (1.00s)\n", "TestA/b"},
		{"another test is skipped", "TestA", "TestA", "=== RUN   TestA\n--- PASS: TestA (1.00s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\n", ""},
	} {
		judge := exec.CommandContext(t.Context(), "awk", "-v", "prefix="+test.prefix, "-v", "expected="+strings.ReplaceAll(test.expected, "\n", " "), "-f", "judge.awk")
		judge.Stdin = strings.NewReader(test.output)
		said, err := judge.CombinedOutput()
		_, fault, _ := strings.Cut(string(said), "not passed: ")
		if (err == nil) != (test.want == "") || !strings.Contains(fault, test.want) {
			t.Errorf("%s: %v: %s, want %q", test.name, err, said, test.want)
		}
	}
}
