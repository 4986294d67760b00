package chart

// Variant is one way to install evictd, with the chart and with kustomize.
type Variant struct {
	Name, Namespace, Values, Kustomization string
}

// withoutTheEvictionsPolicy is the name of the variant that docs/security.md describes.
const withoutTheEvictionsPolicy = "without the policy on evictions"

// Variants are the shipped manifest, each opt-in, all overlays at once, and another namespace.
func Variants() []Variant {
	return []Variant{
		{"shipped", Namespace, "", "resources: [DEPLOY]"},
		{"taint", Namespace, "taint: {enabled: true}", "resources: [DEPLOY, DEPLOY/overlays/taint]"},
		{"best effort", Namespace, "bestEffort: {enabled: true}", "resources: [DEPLOY, DEPLOY/overlays/best-effort]"},
		{"disk from files", Namespace, "diskNode: {enabled: true}", "resources: [DEPLOY]\ncomponents: [DEPLOY/components/disk-node]"},
		{"kubepods trigger", Namespace, "kubepodsTrigger: {enabled: true}", "resources: [DEPLOY]\ncomponents: [DEPLOY/components/kubepods-trigger]"},
		{
			"the kubelet's configuration", Namespace, "kubeletConfig: {enabled: true}",
			"resources: [DEPLOY]\npatches: [{path: DEPLOY/kubelet-config.patch.yaml, target: {kind: DaemonSet}}]",
		},
		{
			withoutTheEvictionsPolicy, Namespace, "ownNodePolicies: {evictions: false}", `resources: [DEPLOY]
patches: [{patch: '{"$patch": "delete", "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "evictd-evicts-on-own-node"}}'}]`,
		},
		{
			"another image", Namespace, "image: {repository: registry.corp.example/evictd, tag: v9}",
			"resources: [DEPLOY]\nimages: [{name: IMAGE, newName: registry.corp.example/evictd, newTag: v9}]",
		},
		{
			"another namespace", "node-agents", "taint: {enabled: true}\nbestEffort: {enabled: true}",
			`resources: [DEPLOY, DEPLOY/overlays/taint, DEPLOY/overlays/best-effort]
namespace: node-agents
transformers: [DEPLOY/transformers/namespace]`,
		},
	}
}
