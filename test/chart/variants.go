package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Variant is one way to install evictd, with the chart and with kustomize.
type Variant struct {
	// Name is that of its file of values in the chart's folder ci, without -values.yaml.
	Name string
	// Namespace is that of the release.
	Namespace string
	// Values are those of the file, in YAML.
	Values string
	// Kustomization gives the same objects; empty where only the chart has the variant.
	Kustomization string
}

// withoutTheEvictionsPolicy is the variant that docs/security.md describes.
const withoutTheEvictionsPolicy = "no-evictions-policy"

// Variants returns one for each file of values in the chart's folder ci.
func Variants(t *testing.T) []Variant {
	t.Helper()
	files, err := filepath.Glob(chartDir + "/ci/*-values.yaml")
	if err != nil || len(files) < len(kustomizations()) {
		t.Fatalf("%d files of values, and %v", len(files), err)
	}
	var all []Variant
	for _, file := range files {
		values, err := os.ReadFile(filepath.Clean(file))
		must(t, err)
		v := Variant{Name: strings.TrimSuffix(filepath.Base(file), "-values.yaml"), Namespace: Namespace, Values: string(values)}
		if v.Name == "namespace" {
			v.Namespace = "node-agents"
		}
		v.Kustomization = kustomizations()[v.Name]
		all = append(all, v)
	}
	return all
}

// kustomizations are those that give the same objects as a file of values.
func kustomizations() map[string]string {
	return map[string]string{
		"default":     "resources: [DEPLOY]",
		"taint":       "resources: [DEPLOY, DEPLOY/overlays/taint]",
		"best-effort": "resources: [DEPLOY, DEPLOY/overlays/best-effort]",
		// With the chart one value is enough: it writes the configuration.
		"disk-node": "resources: [DEPLOY]\ncomponents: [DEPLOY/components/disk-node]\n" + `patches:
- patch: |
    apiVersion: v1
    kind: ConfigMap
    data:
      evictd.yaml: |
        apiVersion: evictd.dev/v1alpha1
        kind: EvictdConfiguration
        # true: every eviction is a server-side dry run and no pod goes. Read the log
        # for a week, then set it to false. A running evictd follows the edit.
        dryRun: true
        disk: {source: node}
        # What is left out has its default: see docs/configuration.md, or run
        # ` + "`evictd config defaults`.\n    metadata: {name: evictd, namespace: evictd}\n",
		"kubepods-trigger": "resources: [DEPLOY]\ncomponents: [DEPLOY/components/kubepods-trigger]",
		"kubelet-config":   "resources: [DEPLOY]\npatches: [{path: DEPLOY/kubelet-config.patch.yaml, target: {kind: DaemonSet}}]",
		withoutTheEvictionsPolicy: `resources: [DEPLOY]
patches: [{patch: '{"$patch": "delete", "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "evictd-evicts-on-own-node"}}'}]`,
		"image": "resources: [DEPLOY]\nimages: [{name: IMAGE, newName: registry.corp.example/evictd, newTag: v9}]",
		"namespace": `resources: [DEPLOY, DEPLOY/overlays/taint, DEPLOY/overlays/best-effort]
namespace: node-agents
transformers: [DEPLOY/transformers/namespace]`,
	}
}
