package chart

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"
)

const (
	deployDir = "../../deploy"
	chartDir  = deployDir + "/chart/evictd"
	// Release is the name of the release that the shipped manifest corresponds to.
	Release = "evictd"
	// Namespace is its namespace.
	Namespace = "evictd"
)

// Rendered is what Helm makes of the chart.
type Rendered struct {
	// Objects are those that Helm installs, Tests those of `helm test`.
	Objects, Tests Objects
	// Notes are what Helm prints at the end.
	Notes string
}

// Load loads the chart.
func Load(t *testing.T) *chartv2.Chart {
	t.Helper()
	chart, err := loader.Load(chartDir)
	must(t, err)
	return chart
}

// Render renders the chart with values, a YAML text, into a Namespace, and fails the test
// where Helm refuses that.
func Render(t *testing.T, in, values string) Rendered {
	t.Helper()
	r, err := RenderOrRefuse(t, in, values)
	if err != nil {
		t.Fatalf("with the values\n%s\n%v", values, err)
	}
	return r
}

// RenderOrRefuse returns Helm's error, without its lines of introduction.
func RenderOrRefuse(t *testing.T, in, text string) (Rendered, error) {
	t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text)) // as `helm -f`
	must(t, err)
	chart := Load(t)
	complete, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: Release, Namespace: in, IsInstall: true}, nil)
	if err != nil {
		_, reason, _ := strings.Cut(err.Error(), chart.Name()+":\n")
		return Rendered{}, errors.New(strings.TrimSpace(reason))
	}
	// Strict refuses a template that names a value that is not there. Values that are null are
	// not there either: Helm itself is not strict.
	files, err := engine.Engine{Strict: !strings.HasSuffix(text, ": null")}.RenderWithContext(t.Context(), chart, complete)
	if err != nil {
		return Rendered{}, err
	}
	return sorted(t, files), nil
}

// sorted splits the rendered files as Helm does.
func sorted(t *testing.T, files map[string]string) Rendered {
	t.Helper()
	r := Rendered{Objects: Objects{}, Tests: Objects{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "/NOTES.txt") {
			r.Notes = files[name]
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	must(t, err)
	for _, hook := range hooks {
		r.Tests.add(t, hook.Manifest)
	}
	for _, manifest := range manifests {
		r.Objects.add(t, manifest.Content)
	}
	return r
}

// parse decodes one YAML document strictly: a key that is there twice is an error.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	object := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}

// must ends the test where something failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
