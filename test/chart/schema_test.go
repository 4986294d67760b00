package chart

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// refusal is what the chart refuses, and the sentence that says why.
type refusal struct{ values, sentence string }

func refusals() []refusal {
	return []refusal{
		{"imagee: {}", `- at '': additional properties 'imagee' not allowed`},
		{"image: {tagg: v9}", `- at '/image': additional properties 'tagg' not allowed`},
		{"image: evictd", `- at '/image': got string, want object`},
		{"image: {tag: 1}", `- at '/image/tag': got number, want string`},
		{"image: {tag: null}", `- at '/image': missing property 'tag'`},
		{"image: {digest: sha256:0123}", `- at '/image/digest': 'sha256:0123' does not match pattern '^(sha256:[0-9a-f]{64})?$'`},
		{"image: {repository: Upper/evictd}", `- at '/image/repository': 'Upper/evictd' does not match pattern '^[a-z0-9][a-z0-9._:/-]*$'`},
		{"image: {pullPolicy: Sometimes}", `- at '/image/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'`},
		{"imagePullSecrets: [registry]", `- at '/imagePullSecrets/0': got string, want object`},
		{"config: 'dryRun: false'", `- at '/config': got string, want object`},
		{"config: {dryRun: ture}", `- at '/config/dryRun': got string, want boolean`},
		{"config: {dryRun: 'true'}", `- at '/config/dryRun': got string, want boolean`},
		{"config: {dryRun: 1}", `- at '/config/dryRun': got number, want boolean`},
		{"extraArgs: --dry-run", `- at '/extraArgs': got string, want array`},
		{"taint: true", `- at '/taint': got boolean, want object`},
		{"bestEffort: {enabled: 'yes'}", `- at '/bestEffort/enabled': got string, want boolean`},
		{"kubepodsTrigger: {cgroupDriver: x}", `- at '/kubepodsTrigger/cgroupDriver': value must be one of 'systemd', 'cgroupfs'`},
		{"kubeletConfig: {path: config.yaml}", `- at '/kubeletConfig/path': 'config.yaml' does not match pattern '^/[^ ,{}]*$'`},
		{"state: {sizeLimit: 1MB}", `- at '/state/sizeLimit': '1MB' does not match pattern '^[0-9]+(\\.[0-9]+)?(k|[MGTPE]|[KMGTPE]i)?$'`},
		{"podMonitor: {interval: 15}", `- at '/podMonitor/interval': got number, want string`},
		{
			"dashboards: {labelValue: yes please}",
			`- at '/dashboards/labelValue': 'yes please' does not match pattern '^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$'`,
		},
		{"podMonitor: {labels: {a: 1}}", `- at '/podMonitor/labels/a': got number, want string`},
		{"networkPolicy: {ports: [https]}", `- at '/networkPolicy/ports/0': got string, want integer`},
		{"http: {port: 0}", `- at '/http/port': minimum: got 0, want 1`},
		{"hostPaths: {images: ''}", `- at '/hostPaths/images': '' does not match pattern '^/[^ ,{}]*$'`},
		{"resources: {request: {}}", `- at '/resources': additional properties 'request' not allowed`},
		{"goMemoryLimit: 56Mi", `- at '/goMemoryLimit': '56Mi' does not match pattern '^[0-9]+([KMGT]iB|B)?$'`},
		{"updateStrategy: {type: Recreate}", `- at '/updateStrategy/type': value must be one of 'RollingUpdate', 'OnDelete'`},
		{"serviceAccount: {name: ''}", `- at '/serviceAccount/name': '' does not match pattern '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'`},
		{"podLabels: {app.kubernetes.io/name: mine}", `: podLabels may not have app.kubernetes.io/name: set nameOverride`},
		{"commonLabels: {app.kubernetes.io/name: mine}", `: commonLabels may not have app.kubernetes.io/name: set nameOverride`},
		{
			"{diskNode: {enabled: true}, kubepodsTrigger: {enabled: true}}",
			`: diskNode.enabled and kubepodsTrigger.enabled do not combine: set one of them to false`,
		},
		{
			"{taint: {enabled: true}, ownNodePolicies: {enabled: false}}",
			`: taint.enabled needs ownNodePolicies.enabled: without the policies the right is not confined to evictd's own node`,
		},
		{
			"{bestEffort: {enabled: true}, ownNodePolicies: {enabled: false}}",
			`: bestEffort.enabled needs ownNodePolicies.enabled: without the policies the right is not confined to evictd's own node`,
		},
	}
}

// A wrong value is refused by one sentence, which names its path.
func TestChartRefuses(t *testing.T) {
	t.Parallel()
	for _, r := range refusals() {
		_, err := RenderOrRefuse(t, Namespace, r.values)
		if err == nil {
			t.Errorf("%s is not refused", r.values)
			continue
		}
		if text := err.Error(); !strings.HasSuffix(text, r.sentence) || strings.Contains(text, "\n") {
			t.Errorf("%s is refused by %q, want one sentence: %q", r.values, text, r.sentence)
		}
	}
}

// Each of several faults is named.
func TestChartNamesEachFault(t *testing.T) {
	t.Parallel()
	_, err := RenderOrRefuse(t, Namespace, "{image: {tagg: v9}, http: {port: x}, configg: {}}")
	if err == nil {
		t.Fatal("not refused")
	}
	for _, path := range []string{"'/image'", "'/http/port'", "'configg'"} {
		if !strings.Contains(err.Error(), path) {
			t.Errorf("%v does not name %s", err, path)
		}
	}
}

// A value that may be left out may also be null, and a chart that depends on this one may have
// global values.
func TestChartTakesNullAndGlobal(t *testing.T) {
	t.Parallel()
	for _, values := range []string{"config: null", "extraArgs: null", "global: {team: nodes}"} {
		if got := Render(t, Namespace, "").Objects.Changes(Render(t, Namespace, values).Objects); len(got) != 0 {
			t.Errorf("%s changes %q", values, got)
		}
	}
	for _, values := range []string{"resources: null", "tolerations: null", "nodeSelector: null", "podLabels: null"} {
		Render(t, Namespace, values)
	}
}

// jsonSchema is the part of a JSON schema that the test compares with the values.
type jsonSchema struct {
	AdditionalProperties any                   `json:"additionalProperties"`
	Properties           map[string]jsonSchema `json:"properties"`
}

// The schema knows exactly the keys of values.yaml, and of objects of the chart's own no other
// key is taken.
func TestSchemaHasTheKeysOfTheValues(t *testing.T) {
	t.Parallel()
	var s jsonSchema
	must(t, json.Unmarshal([]byte(read(t, chartDir+"/values.schema.json")), &s))
	delete(s.Properties, "global")
	sameKeys(t, "", s, parse(t, read(t, chartDir+"/values.yaml")))
}

func sameKeys(t *testing.T, path string, s jsonSchema, values map[string]any) {
	t.Helper()
	if s.AdditionalProperties != false {
		t.Errorf("%q is not closed: a misspelt key would have no effect", path)
	}
	if want, got := slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(want, got) {
		t.Errorf("%q: the schema has the keys %q, values.yaml %q", path, got, want)
	}
	for name, value := range values {
		fields, isMap := value.(map[string]any)
		if isMap && len(fields) > 0 && !slices.Contains(kubernetesOwn(), name) {
			sameKeys(t, path+"/"+name, s.Properties[name], fields)
		}
	}
}
