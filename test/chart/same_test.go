package chart

import (
	"slices"
	"testing"
)

// variant is one way to install evictd, with the chart and with kustomize.
type variant struct {
	name, namespace, values, kustomization string
}

// variants are the shipped manifest, each opt-in, all overlays at once, and another namespace.
func variants() []variant {
	return []variant{
		{"shipped", namespace, "", "resources: [DEPLOY]"},
		{"taint", namespace, "taint: {enabled: true}", "resources: [DEPLOY, DEPLOY/overlays/taint]"},
		{"permits", namespace, "permits: {enabled: true}", "resources: [DEPLOY, DEPLOY/overlays/permits]"},
		{"best effort", namespace, "bestEffort: {enabled: true}", "resources: [DEPLOY, DEPLOY/overlays/best-effort]"},
		{"disk from files", namespace, "diskNode: {enabled: true}", "resources: [DEPLOY]\ncomponents: [DEPLOY/components/disk-node]"},
		{"kubepods trigger", namespace, "kubepodsTrigger: {enabled: true}", "resources: [DEPLOY]\ncomponents: [DEPLOY/components/kubepods-trigger]"},
		{
			"the kubelet's configuration", namespace, "kubeletConfig: {enabled: true}",
			"resources: [DEPLOY]\npatches: [{path: DEPLOY/kubelet-config.patch.yaml, target: {kind: DaemonSet}}]",
		},
		{
			"without the policy on evictions", namespace, "ownNodePolicies: {evictions: false}", `resources: [DEPLOY]
patches: [{patch: '{"$patch": "delete", "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "evictd-evicts-on-own-node"}}'}]`,
		},
		{
			"another image", namespace, "image: {repository: registry.corp.example/evictd, tag: v9}",
			"resources: [DEPLOY]\nimages: [{name: IMAGE, newName: registry.corp.example/evictd, newTag: v9}]",
		},
		{
			"another namespace", "node-agents", "taint: {enabled: true}\npermits: {enabled: true}\nbestEffort: {enabled: true}",
			`resources: [DEPLOY, DEPLOY/overlays/taint, DEPLOY/overlays/permits, DEPLOY/overlays/best-effort]
namespace: node-agents
transformers: [DEPLOY/transformers/namespace]`,
		},
	}
}

// Chart and kustomization give the same objects, field by field, and neither has an object
// that the other lacks.
func TestChartAndKustomizeGiveTheSameObjects(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			want := kustomize(t, v.kustomization)
			got := render(t, v.namespace, v.values+"\nnamespace: {create: true}\n").objects
			differ := want.changes(got)
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
	got := kustomize(t, "resources: [DEPLOY]").changes(render(t, namespace, "").objects)
	if want := []string{"Namespace evictd gone"}; !slices.Equal(got, want) {
		t.Errorf("the chart with default values differs from deploy by %q, want %q", got, want)
	}
}

// The chart has the version of the evictd that it installs.
func TestChartHasEvictdsVersion(t *testing.T) {
	t.Parallel()
	if chart := loadChart(t).Metadata; "v"+chart.Version != chart.AppVersion {
		t.Errorf("the chart %s installs evictd %s", chart.Version, chart.AppVersion)
	}
}
