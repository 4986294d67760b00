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
	// release and namespace are those that the shipped manifest corresponds to.
	release   = "evictd"
	namespace = "evictd"
)

// rendered is what Helm makes of the chart.
type rendered struct {
	// objects are those that Helm installs, tests those of `helm test`.
	objects, tests objects
	notes          string
}

func loadChart(t *testing.T) *chartv2.Chart {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// render renders the chart with values, a YAML text, into a namespace, and fails the test
// where Helm refuses that.
func render(t *testing.T, in, values string) rendered {
	t.Helper()
	r, err := renderOrRefuse(t, in, values)
	if err != nil {
		t.Fatalf("with the values\n%s\n%v", values, err)
	}
	return r
}

// renderOrRefuse returns Helm's error, without its lines of introduction.
func renderOrRefuse(t *testing.T, in, text string) (rendered, error) {
	t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text)) // as `helm -f`
	if err != nil {
		t.Fatal(err)
	}
	chart := loadChart(t)
	complete, err := util.ToRenderValues(chart, values, common.ReleaseOptions{Name: release, Namespace: in, IsInstall: true}, nil)
	if err != nil {
		_, reason, _ := strings.Cut(err.Error(), chart.Name()+":\n")
		return rendered{}, errors.New(strings.TrimSpace(reason))
	}
	// Strict refuses a template that names a value that is not there. Values that are null are
	// not there either: Helm itself is not strict.
	files, err := engine.Engine{Strict: !strings.HasSuffix(text, ": null")}.RenderWithContext(t.Context(), chart, complete)
	if err != nil {
		return rendered{}, err
	}
	return sorted(t, files), nil
}

// sorted splits the rendered files as Helm does.
func sorted(t *testing.T, files map[string]string) rendered {
	t.Helper()
	r := rendered{objects: objects{}, tests: objects{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "/NOTES.txt") {
			r.notes = files[name]
			delete(files, name)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	for _, hook := range hooks {
		r.tests.add(t, hook.Manifest)
	}
	for _, manifest := range manifests {
		r.objects.add(t, manifest.Content)
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
