package chart

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The kustomizations in docs/install.md are right as they are there, in a directory that
// has deploy in it.
func TestInstallPagesKustomizationsBuild(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/install.md"), -1)
	if len(found) != 4 {
		t.Fatalf("%d kustomizations, want 4", len(found))
	}
	var built []Objects
	for _, block := range found {
		text := strings.ReplaceAll(block[1], "sortOptions: {order: fifo}", "") // kustomize adds it
		built = append(built, Kustomize(t, regexp.MustCompile(`\bdeploy\b`).ReplaceAllString(text, "DEPLOY")))
	}
	want := fmt.Sprintf("%q", "registry.corp.example/evictd:"+Load(t).Metadata.AppVersion)
	if image := fields(built[0]["DaemonSet evictd/evictd"])["spec.template.spec.containers[evictd].image"]; image != want {
		t.Errorf("the image is %s, want %s", image, want)
	}
	if _, ok := built[1]["DaemonSet node-agents/evictd"]; !ok {
		t.Error("the namespace is another one")
	}
	for name := range built[1] {
		if strings.HasPrefix(name, "Namespace ") {
			t.Errorf("%s is in the kustomization: kubectl delete -k would delete it with what others have in it", name)
		}
	}
	if rest := fields(built[2]["DaemonSet evictd/evictd"]); !strings.Contains(fmt.Sprint(rest), "NotIn") {
		t.Errorf("the first DaemonSet is not kept off the nodes of the second: %v", rest)
	}
	acting := fields(built[3]["DaemonSet evictd/evictd-acting"])
	for field, want := range map[string]string{
		"spec.template.spec.nodeSelector.evictd.dev/act":    `"true"`,
		"spec.selector.matchLabels.evictd.dev/act":          `"true"`,
		"spec.template.metadata.labels.evictd.dev/act":      `"true"`,
		"spec.template.spec.serviceAccountName":             `"evictd"`,
		"spec.template.spec.volumes[config].configMap.name": `"evictd-acting"`,
	} {
		if acting[field] != want {
			t.Errorf("of the second DaemonSet %s is %s, want %s", field, acting[field], want)
		}
	}
	if len(built[3]) != 2 {
		t.Errorf("the second kustomization has more than a DaemonSet and a ConfigMap: %v", slices.Sorted(maps.Keys(built[3])))
	}
}

// docs/security.md has the lines of kustomize that leave out the policy on the evictions of all accounts, and the
// values that close /metrics.
func TestSecurityPageHasItsVariants(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/security.md")
	for _, v := range Variants(t) {
		if _, patches, _ := strings.Cut(v.Kustomization, "\n"); v.Name == withoutTheEvictionsPolicy && !strings.Contains(page, "\n"+patches+"\n") {
			t.Errorf("docs/security.md lacks\n%s", patches)
		}
		if _, values, _ := strings.Cut(v.Values, "\n"); v.Name == "kube-rbac-proxy" && !strings.Contains(page, "\n"+values) {
			t.Errorf("docs/security.md lacks\n%s", values)
		}
	}
}
