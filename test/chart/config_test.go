package chart

import (
	"maps"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"
)

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

// Every field of the configuration goes through the chart as it is, and so does what evictd does not know. The pod
// of `helm test` gives that file to evictd, which names each fault: TestHelmOnARealNode in test/e2e.
func TestConfigurationIsPassedOn(t *testing.T) {
	t.Parallel()
	more := `
evictionMaxPodGracePeriod: 10000000
memoryStall: {type: full, threshold: 10%, window: 2s}
unknown: [1, 0.25, "0.10", yes, null, "on", {deep: "1e3"}]
`
	merged := parse(t, read(t, "../../internal/config/testdata/defaults.yaml"))
	maps.Copy(merged, parse(t, more))
	text, err := yaml.Marshal(merged)
	must(t, err)
	got := parse(t, configurationWith(t, string(text)))
	if lines := (Objects{"": merged}).Changes(Objects{"": got}); len(lines) > 0 {
		t.Errorf("the chart changes the configuration: %q", lines)
	}
	pod := fields(Render(t, Namespace, "").Tests["Pod evictd/evictd-config"])
	if pod["spec.containers[evictd].args"] != `["config","validate","/etc/evictd/evictd.yaml"]` ||
		pod["spec.containers[evictd].volumeMounts[/etc/evictd].name"] != `"config"` || pod["spec.volumes[config].configMap.name"] != `"evictd"` {
		t.Errorf("the pod of helm test does not read the configuration: %q", pod)
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
