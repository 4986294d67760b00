package main

import (
	"strings"
	"testing"
)

// Commands, flags and the values of flags are completed; where a file is of no use, no file is.
func TestCompletion(t *testing.T) {
	t.Parallel()
	const noFiles, files = ":4\n", ":0\n"
	for _, test := range []struct{ typed, want string }{
		{"ra", "rank\tPrint which pod the evictd of this pod would evict first now, and why; evicts no pod\n" + noFiles},
		{"rank --signal ", "memory.available\nkubeletMemory.available\n"},
		{"rank --http", "--http-bind-address"},
		{"rank -o ", "table\nwide\njson\nyaml\n" + noFiles},
		{"rank --why ", noFiles},
		{"status -o ", "table\njson\n" + noFiles},
		{"rank --snapshot ", files},
		{"doctor -o ", "table\njson\n" + noFiles},
		{"doctor --node-name ", noFiles},
		{"version -o ", "text\njson\n" + noFiles},
		{"run --log-level ", "debug\ninfo\nwarn\nerror\n" + noFiles},
		{"run --log-format ", "json\nconsole\n" + noFiles},
		{"run --node-name ", noFiles},
		{"run ", noFiles},
		{"config ", "defaults\t"},
		{"completion ", "bash\t"},
	} {
		code, stdout, stderr := call(t, append([]string{"__complete"}, strings.Split(test.typed, " ")...)...)
		if code != exitFine || !strings.HasPrefix(stdout, test.want) {
			t.Errorf("%q is completed with %q, want %q; code %d, stderr %q", test.typed, stdout, test.want, code, stderr)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, stdout, _ := call(t, "completion", shell); code != exitFine || !strings.Contains(stdout, "__complete") {
			t.Errorf("completion %s: code %d, %d bytes", shell, code, len(stdout))
		}
	}
}
