package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Kustomize returns what kustomize makes of a kustomization.
func Kustomize(t *testing.T, text string) Objects {
	t.Helper()
	dir := Kustomization(t, text)
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified     // the kustomization says it
	options.LoadRestrictions = types.LoadRestrictionsNone // the patch of the kubelet's file is named by its path
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("building\n%s\n%v", text, err)
	}
	result := Objects{}
	for _, resource := range resources.Resources() {
		if resource.GetKind() == "FlowSchema" {
			// kustomize does not know that the kind has no namespace; the API server ignores it.
			must(t, resource.SetNamespace(""))
		}
		document, err := resource.AsYAML()
		must(t, err)
		result.add(t, string(document))
	}
	return result
}

// Kustomization writes a kustomization into a directory: a YAML text in which DEPLOY is the path
// of deploy, and IMAGE the shipped image's name.
func Kustomization(t *testing.T, text string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	deploy, err := filepath.Abs(deployDir)
	must(t, err)
	if deploy, err = filepath.EvalSymlinks(deploy); err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, deploy)
	must(t, err)
	image, _ := Load(t).Values["image"].(map[string]any)
	text = strings.NewReplacer("DEPLOY", relative, "IMAGE", fmt.Sprint(image["repository"])).Replace(text) + "\nsortOptions: {order: fifo}\n"
	must(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
	return dir
}
