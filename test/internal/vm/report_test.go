package vm

import (
	"path/filepath"
	"strings"
	"testing"
)

// What a report must call a failure, and what it must not.
func TestReport(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, prefix string
		expected     []string
		output, want string // want is a part of the error; "" is none
	}{
		{"a pass", "", []string{"TestA"}, "=== RUN   TestA\r\n--- PASS: TestA (1.00s)\r\n", ""},
		{"none ran", "", nil, "evictd-vm: nothing\r\nPASS\r\n", "no test ran"},
		{"an expected one is missing", "", []string{"TestA", "TestB"}, "=== RUN   TestA\n--- PASS: TestA (1.00s)\n", "TestB"},
		{"one that was not expected fails", "", nil, "=== RUN   TestA\n--- FAIL: TestA (1.00s)\n", "TestA"},
		{"one does not end", "", nil, "=== RUN   TestA\n", "TestA"},
		{"one is skipped", "", nil, "=== RUN   TestA\n--- SKIP: TestA (0.00s)\n", "TestA"},
		{"a part is skipped", "", nil, "=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (1.00s)\n    --- SKIP: TestA/b (0.00s)\n", "TestA"},
		{"an expected part passes", "", []string{"TestA/b"}, "=== RUN   TestA\n=== RUN   TestA/b\n--- PASS: TestA (1.00s)\n    --- PASS: TestA/b (1.00s)\n", ""},
		{"an expected part is missing", "", []string{"TestA/b"}, "=== RUN   TestA\n--- PASS: TestA (1.00s)\n", "TestA/b"},
		{"another test is skipped", "TestA", []string{"TestA"}, "=== RUN   TestA\n--- PASS: TestA (1.00s)\n=== RUN   TestB\n--- SKIP: TestB (0.00s)\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := NewReport(filepath.Join(t.TempDir(), "log"), test.prefix, test.expected)
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range []string{test.output[:5], test.output[5:]} { // output arrives in pieces
				if _, err := r.Write([]byte(piece)); err != nil {
					t.Fatal(err)
				}
			}
			switch err := r.Judge(); {
			case test.want == "" && err != nil:
				t.Errorf("the error is %v, want none", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
