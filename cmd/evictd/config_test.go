package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func configFile(t *testing.T, content string) string {
	t.Helper()
	return writeFile(t, "evictd.yaml", content)
}

const head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"

// A valid file is said to be; faults are one line each with their paths, and nothing else.
func TestConfigValidate(t *testing.T) {
	t.Parallel()
	valid, absent := configFile(t, head), filepath.Join(t.TempDir(), "none.yaml")
	broken := configFile(t, head+"evictionHard: {memory.available: NaN%}\nevictionSoft: {nodefs.available: 10%}\ncolour: red\n")
	for file, test := range map[string]struct {
		code    int
		stdout  string
		begins  []string // of each line of stderr
		holding string
	}{
		valid:  {exitFine, valid + ": valid\n", nil, ""},
		broken: {exitFault, "", []string{"colour: ", "evictionHard[memory.available]: ", "evictionSoftGracePeriod[nodefs.available]: "}, ""},
		absent: {exitFault, "", []string{"evictd: " + absent + ": "}, "no such file"},
	} {
		code, stdout, stderr := call(t, "config", "validate", file)
		if code != test.code || stdout != test.stdout || !strings.Contains(stderr, test.holding) || strings.Count(stderr, "\n") != len(test.begins) {
			t.Errorf("%s: code %d, stdout %q, stderr %q", file, code, stdout, stderr)
		}
		for i, line := range strings.Split(stderr, "\n")[:len(test.begins)] {
			if !strings.HasPrefix(line, test.begins[i]) {
				t.Errorf("%s: line %q, want %q", file, line, test.begins[i])
			}
		}
	}
}

func TestConfigDefaultsValidate(t *testing.T) {
	t.Parallel()
	code, defaults, stderr := call(t, "config", "defaults")
	if code != 0 || stderr != "" || defaults == "" {
		t.Fatalf("code %d, stdout %q, stderr %q", code, defaults, stderr)
	}
	if code, _, stderr := call(t, "config", "validate", configFile(t, defaults)); code != 0 {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}
