package config

import (
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/strictyaml"
	"github.com/evictd/evictd/internal/testing/must"
)

const head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"

func mustParse(t *testing.T, file string) *EvictdConfiguration {
	t.Helper()
	c, err := Parse([]byte(file))
	must.Succeed(t, err)
	return c
}

// What files.txt cannot hold: "" is a file that gives the defaults, else the error.
func TestBytes(t *testing.T) {
	t.Parallel()
	quoted := "\"" + strings.ReplaceAll(head, "\n", "\\n") + "\""
	for file, says := range map[string]string{
		head + "\x00":     "f:3: not YAML: control characters are not allowed",
		head + "# \xff\n": "f:3: not YAML: invalid leading UTF-8 octet",
		head + "#" + strings.Repeat("a", strictyaml.MaxBytes): "f:1: is larger than 1 MiB",
		head + "queues: " + strings.Repeat("[{name: a, queues: ", 2000) + "[]" + strings.Repeat("}]", 2000): "f:3: queues[0]" +
			strings.Repeat(".queues[0]", 15) + ".queues: Invalid value: is nested deeper than 16 queues",
		"\ufeff" + head:           "", // a byte order mark
		"%YAML 1.1\n---\n" + head: "",
		"# \u2028 \u0085\r--- # a\rkind: Pod\r---\r" + head:                                             "",
		"# \u2028 \u0085\r--- # a\rkind: Pod\r---\r" + head + "a: b":                                    "f:9: a: Forbidden",
		"kind: ConfigMap\ndata: {a: \"# a\\r--- # b\\r" + strings.ReplaceAll(head, "\n", "\\n") + "\"}": "",
		"kind: ConfigMap\ndata:" + strings.Repeat("\n  a: b", 31) + "\n  c: " + quoted:                  "",
		"kind: ConfigMap\ndata:" + strings.Repeat("\n  a: b", 32) + "\n  c: " + quoted:                  "f:1: kind: a ConfigMap, not",
		"kind: ConfigMap\ndata:" + strings.Repeat("\n  a: b", 32) + "\n  evictd.yaml: " + quoted:        "",
		strings.ReplaceAll(head, "\n", "\r\n"):                                                          "",
	} {
		c, err := ParseFile("f", []byte(file))
		if says == "" {
			if diff := cmp.Diff(Default(), c); diff != "" {
				t.Errorf("%q: %v, not the defaults (-want +got):\n%s", file, err, diff)
			}
		} else if err == nil || c != nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.200q: got %v and %v, want one line that says %q", file, c, err, says)
		}
	}
}

// TestMemory: what a file takes grows as the file does. It does not run beside other tests, whose memory would count.
func TestMemory(t *testing.T) {
	for name, file := range map[string]string{
		"keys":                    head + "limits: {" + strings.Repeat("a,", 1300) + "}",
		"keys on top":             "{" + strings.Repeat("a,", 1300) + "}",
		"keys of a ConfigMap":     "kind: ConfigMap\ndata: {" + strings.Repeat("a,", 1300) + "}",
		"documents":               strings.Repeat("--- a\n", 3300),
		"texts of a ConfigMap":    "kind: ConfigMap\ndata:\n" + strings.Repeat("  a: b\n", 3000),
		"lines before ConfigMaps": strings.Repeat("---\nkind: ConfigMap\ndata: {a: b}\n", 1000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseFile("f", []byte(file))
		runtime.ReadMemStats(&after)
		t.Log(name, (after.TotalAlloc-before.TotalAlloc)>>10, len(file)>>10, len(err.Error()))
		if taken := after.TotalAlloc - before.TotalAlloc; err == nil || taken > 16<<20 {
			t.Errorf("%s: got %v after %d bytes, want a fault after few", name, err, taken)
		}
	}
}

// FuzzParse: nothing panics, every fault is a line, and what is accepted is
// written and read back to the same.
func FuzzParse(f *testing.F) {
	defaults, err := yaml.Marshal(Default())
	must.Succeed(f, err)
	for _, seed := range []string{
		string(defaults), head, "", "- a", head + "---\n" + head, head + "evictionHard: {memory.available: 100.0%}",
		head + "evictionSoft: {memory.available: 20%}\nevictionSoftGracePeriod: {memory.available: 0s}",
		head + "protect: {podSelector: {matchExpressions: [{key: a, operator: Exists, values: []}]}, namespaces: []}",
		head + "a: &a [*a]", head + "? [a]: b", head + "? {a: b}\n: c", head + "1: 2", head + "<<: {dryRun: true}",
		head + "sampling: {minInterval: 5s}", head + "dryRun: .nan", head + "\"\\x01\\n\": 1", "kind: Pod\n---\n" + head + "a: [",
		"kind: ConfigMap\ndata:\n  evictd.yaml: |\n    kind: EvictdConfiguration\n    sampling: {minInterval: 90}\n    protect: {namespaces: a}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseFile("f", data)
		if err != nil {
			for _, fault := range faultsIn(t, err) {
				if !regexp.MustCompile(`^f:[1-9]\d*: [^\n]+$`).MatchString(fault) || goWords(fault) && !goWords(string(data)) {
					t.Errorf("no line for people, with its place: %q", fault)
				}
			}
			return
		}
		written, err := yaml.Marshal(c)
		must.Succeed(t, err)
		again, err := Parse(written)
		if err != nil {
			t.Fatalf("%v, reading back:\n%s", err, written)
		}
		if diff := cmp.Diff(c, again, emptySelectors(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("read back (-want +got):\n%s", diff)
		}
		if c.Thresholds() == nil {
			t.Error("accepted and without thresholds")
		}
		c.Rules()
	})
}
