package chart

import "testing"

// Chart and kustomization give the same objects, field by field, and neither has an object
// that the other lacks. By default the chart leaves the namespace out, as the row of namespace.create says: Helm needs
// it before it can install, and refuses to take over one that it has just created.
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
