package chart

import (
	"slices"
	"testing"
)

// Chart and kustomization give the same objects, field by field, and neither has an object
// that the other lacks.
func TestChartAndKustomizeGiveTheSameObjects(t *testing.T) {
	t.Parallel()
	for _, v := range Variants(t) {
		if v.Kustomization == "" {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			want := Kustomize(t, v.Kustomization)
			got := Render(t, v.Namespace, v.Values+"\nnamespace: {create: true}\n").Objects
			differ := want.Changes(got)
			for _, line := range differ {
				t.Errorf("chart, compared with kustomize: %s", line)
			}
			t.Logf("%d objects, %d differences", len(want), len(differ))
		})
	}
}

// With its default values the chart differs in one object: Helm needs the namespace before
// it can install, and refuses to take over one that it has just created.
func TestDefaultValuesLeaveOutTheNamespaceAlone(t *testing.T) {
	t.Parallel()
	got := Kustomize(t, "resources: [DEPLOY]").Changes(Render(t, Namespace, "").Objects)
	if want := []string{"Namespace evictd gone"}; !slices.Equal(got, want) {
		t.Errorf("the chart with default values differs from deploy by %q, want %q", got, want)
	}
}
