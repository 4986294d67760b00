package chart

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"
)

// binary is the path of a program.
type binary string

// builtEvictd builds the real evictd.
func builtEvictd(t *testing.T) binary {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evictd")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/evictd")
	build.Dir = "../.."
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building evictd: %v: %s", err, output)
	}
	return binary(path)
}

// run returns what a command prints, and its exit code.
func (b binary) run(t *testing.T, arguments ...string) (string, int) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), string(b), arguments...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(output), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(output), 0
}

// configurationWith returns the file that the chart writes for these fields.
func configurationWith(t *testing.T, fields string) string {
	t.Helper()
	values := "config:\n"
	for line := range strings.Lines(fields) {
		values += "  " + line
	}
	text, ok := Render(t, Namespace, values).Objects["ConfigMap evictd/evictd"]["data"].(map[string]any)["evictd.yaml"].(string)
	if !ok {
		t.Fatal("the ConfigMap has no evictd.yaml")
	}
	return text
}

// What the chart and evictd, the real one, make of a configuration.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	evictd := builtEvictd(t)
	t.Run("the chart passes it on", func(t *testing.T) { t.Parallel(); passesOn(t, evictd) })
	t.Run("the test of Helm names each fault", func(t *testing.T) { t.Parallel(); namesEachFault(t, evictd) })
}

// Every field of the configuration goes through the chart as it is, and so does what evictd
// does not know.
func passesOn(t *testing.T, evictd binary) {
	t.Helper()
	defaults, code := evictd.run(t, "config", "defaults")
	if code != 0 {
		t.Fatal(defaults)
	}
	more := `
evictionMaxPodGracePeriod: 10000000
memoryStall: {type: full, threshold: 10%, window: 2s}
unknown: [1, 0.25, "0.10", yes, null, "on", {deep: "1e3"}]
`
	merged := parse(t, defaults)
	maps.Copy(merged, parse(t, more))
	text, err := yaml.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	got := parse(t, configurationWith(t, string(text)))
	if lines := (Objects{"": merged}).Changes(Objects{"": got}); len(lines) > 0 {
		t.Errorf("the chart changes the configuration: %q", lines)
	}
}

// The faults of a configuration are evictd's to name, each with its field: this is what the
// pod of `helm test` runs.
func namesEachFault(t *testing.T, evictd binary) {
	t.Helper()
	pod := fields(Render(t, Namespace, "").Tests["Pod evictd/evictd-config"])
	var arguments []string
	if err := json.Unmarshal([]byte(pod["spec.containers[evictd].args"]), &arguments); err != nil {
		t.Fatal(err)
	}
	last := len(arguments) - 1
	if arguments[last] != "/etc/evictd/evictd.yaml" || pod["spec.containers[evictd].volumeMounts[/etc/evictd].name"] != `"config"` {
		t.Fatalf("the pod runs %q, or has no configuration: %q", arguments, pod)
	}
	file := filepath.Join(t.TempDir(), "evictd.yaml")
	for text, want := range map[string][]string{
		"dryRun: true": {": valid"},
		"dryRum: false\nevictionHard: {memory.available: 5%%}\nlimits: {evictionsPerMinute: -1}": {
			"dryRum: Forbidden", "evictionHard[memory.available]: Invalid value", "limits.evictionsPerMinute: Invalid value",
		},
	} {
		if err := os.WriteFile(file, []byte(configurationWith(t, text)), 0o600); err != nil {
			t.Fatal(err)
		}
		output, code := evictd.run(t, append(slices.Clone(arguments[:last]), file)...)
		if wrong := len(want) > 1; wrong != (code != 0) || strings.Count(output, "\n") != len(want) {
			t.Errorf("exit code %d and\n%swant %q", code, output, want)
		}
		for _, line := range want {
			if !strings.Contains(output, line) {
				t.Errorf("%q is missing in\n%s", line, output)
			}
		}
	}
}

// `helm lint --strict` has nothing to say.
func TestLint(t *testing.T) {
	t.Parallel()
	lint := action.NewLint()
	lint.Strict = true
	result := lint.Run([]string{chartDir}, nil)
	for _, err := range result.Errors {
		t.Error(err)
	}
	for _, message := range result.Messages {
		t.Log(message)
	}
}
