package chart

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the changes in testdata/values.yaml")

// Each value changes these fields of these objects, and no others. The test of `helm test`
// counts as an object.
func TestValues(t *testing.T) {
	t.Parallel()
	all := Rows(t)
	for i, r := range all {
		before, after := Render(t, Namespace, r.Given), Render(t, Namespace, r.Given+"\n"+r.Set)
		got := slices.Concat(before.Objects.Changes(after.Objects), before.Tests.Changes(after.Tests))
		all[i].Changes = got
		if len(got) == 0 {
			t.Errorf("%s: %s changes nothing", r.Value, r.Set)
		}
		if !*update && !slices.Equal(got, r.Changes) {
			t.Errorf("%s: %s\nchanges\n\t%s\nwant\n\t%s", r.Value, r.Set, strings.Join(got, "\n\t"), strings.Join(r.Changes, "\n\t"))
		}
	}
	if *update {
		write(t, all)
	}
}

// write writes the rows again, in the order of their fields.
func write(t *testing.T, all []Row) {
	t.Helper()
	text := "# For each value of the chart: what it is set to, and all that this changes. Written by\n# go test -run TestValues -update, apart from value, given and set.\n"
	for _, r := range all {
		text += fmt.Sprintf("- value: %s\n", r.Value)
		if r.Given != "" {
			text += fmt.Sprintf("  given: %q\n", r.Given)
		}
		text += fmt.Sprintf("  set: %q\n  changes:\n", r.Set)
		for _, line := range r.Changes {
			text += "  - '" + strings.ReplaceAll(line, "'", "''") + "'\n"
		}
	}
	must(t, os.WriteFile(rowsFile, []byte(text), 0o600))
}

// Each value of values.yaml has a row, and each row is of a value that is there.
func TestEachValueHasARow(t *testing.T) {
	t.Parallel()
	values := parse(t, read(t, chartDir+"/values.yaml"))
	missing := map[string]bool{}
	for _, leaf := range leaves("", values) {
		missing[leaf] = true
	}
	for _, r := range Rows(t) {
		if _, known := missing[r.Value]; !known {
			t.Errorf("the row of %s is of no value in values.yaml", r.Value)
		}
		missing[r.Value] = false
	}
	for leaf, is := range missing {
		if is {
			t.Errorf("value %s has no row in %s", leaf, rowsFile)
		}
	}
}

// The address of the pages may be $(HOST_IP): Kubernetes expands a variable that is above in the list.
func TestAddressMayBeTheNodes(t *testing.T) {
	t.Parallel()
	for name, all := range map[string]Objects{"chart": Render(t, Namespace, "").Objects, "deploy": Kustomize(t, "resources: [DEPLOY]")} {
		text, err := yaml.Marshal(all["DaemonSet evictd/evictd"])
		above, _, found := strings.Cut(string(text), "name: EVICTD_HTTP_BIND_ADDRESS\n")
		if err != nil || !found || !strings.Contains(above, "name: HOST_IP\n") {
			t.Errorf("%s: HOST_IP is not above it: %v\n%s", name, err, text)
		}
	}
}

// leaves returns the paths of the values. Those whose fields are Kubernetes' own are one value.
func leaves(path string, values map[string]any) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		full := strings.TrimPrefix(path+"."+name, ".")
		fields, isMap := values[name].(map[string]any)
		if isMap && len(fields) > 0 && !slices.Contains(kubernetesOwn(), full) {
			all = append(all, leaves(full, fields)...)
			continue
		}
		all = append(all, full)
	}
	return all
}

// kubernetesOwn are the values with defaults whose fields are Kubernetes' own.
func kubernetesOwn() []string {
	return []string{"resources", "updateStrategy", "nodeSelector", "affinity"}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}
