package sbom

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/evictd/evictd/test/image/internal/program"
)

// The packer stands for evictd: its document has each module that is linked in. A test's own
// binary records no modules.
func TestWrite(t *testing.T) {
	t.Parallel()
	self := filepath.Join(t.TempDir(), "image")
	if output, err := exec.Command("go", "build", "-o", self, "../..").CombinedOutput(); err != nil {
		t.Fatalf("building the packer: %v\n%s", err, output)
	}
	release := program.Release{Version: "v1.2.3", Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	var (
		written [2][]byte
		err     error
	)
	for i := range written {
		target := filepath.Join(t.TempDir(), "sbom.json")
		if err = Write(target, self, release); err != nil {
			t.Fatal(err)
		}
		if written[i], err = os.ReadFile(target); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0], written[1]) {
		t.Error("the same program gave two documents")
	}
	var document spdx.Document
	if err = json.ReadInto(bytes.NewReader(written[0]), &document); err != nil {
		t.Fatal(err)
	}
	if err = spdxlib.ValidateDocument(&document); err != nil {
		t.Error(err)
	}
	if document.SPDXVersion != "SPDX-2.3" || document.CreationInfo.Created != "2026-03-01T12:00:00Z" {
		t.Errorf("document %s, created %s", document.SPDXVersion, document.CreationInfo.Created)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil || len(info.Deps) == 0 {
		t.Fatalf("the packer records no modules: %v", err)
	}
	locators := make(map[string]bool)
	for _, p := range document.Packages {
		for _, external := range p.PackageExternalReferences {
			locators[external.Locator] = true
		}
	}
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		if want := "pkg:golang/" + strings.ToLower(dependency.Path) + "@" + dependency.Version; dependency.Version != "" && !locators[want] {
			t.Errorf("no package %s", want)
		}
	}
	if want := len(info.Deps) + 2; len(document.Packages) != want || len(document.Relationships) != want {
		t.Errorf("%d packages, %d relationships, want %d", len(document.Packages), len(document.Relationships), want)
	}
}
