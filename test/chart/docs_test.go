package chart

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// docs/install.md describes each value.
func TestInstallPageHasEachValue(t *testing.T) {
	t.Parallel()
	page := read(t, "../../docs/install.md")
	for _, leaf := range leaves("", parse(t, read(t, chartDir+"/values.yaml"))) {
		if !regexp.MustCompile("(?m)^\\| (`[^|]*, )?`" + regexp.QuoteMeta(leaf) + "`").MatchString(page) {
			t.Errorf("docs/install.md lacks the value %s", leaf)
		}
	}
}

// The kustomizations in docs/install.md are right as they are there, in a directory that
// has deploy in it.
func TestInstallPagesKustomizationsBuild(t *testing.T) {
	t.Parallel()
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/install.md"), -1)
	if len(found) != 2 {
		t.Fatalf("%d kustomizations, want 2", len(found))
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
}
