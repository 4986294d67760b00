package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/config"
)

const (
	pagePath  = "../../docs/configuration.md"
	typesPath = "../../internal/config/types.go"
)

func rendered(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(typesPath)
	if err != nil {
		t.Fatal(err)
	}
	page, err := render(source)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != rendered(t) {
		t.Error("docs/configuration.md is not what the sources say; run `make generate`")
	}
}

// TestRun writes the same page twice.
func TestRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	for range 2 {
		if err := run([]string{"-types", typesPath, "-page", path}, io.Discard); err != nil {
			t.Fatal(err)
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(written) != rendered(t) {
			t.Errorf("rendered:\n%s\nwritten:\n%s", rendered(t), written)
		}
	}
	for _, args := range [][]string{{"-colour"}, {"-types", path + ".none"}, {"-types", typesPath, "-page", filepath.Dir(path)}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%v: got no error", args)
		}
	}
}

// TestPageExamples: every example on the page that is a whole file is valid.
func TestPageExamples(t *testing.T) {
	t.Parallel()
	files := 0
	for i, part := range strings.Split(rendered(t), "```") {
		example, found := strings.CutPrefix(part, "yaml\n")
		if i%2 == 0 || !found {
			continue
		}
		files++
		if _, err := config.Parse([]byte(example)); err != nil {
			t.Errorf("%v, in\n%s", err, example)
		}
	}
	if files < 5 {
		t.Errorf("found only %d examples", files)
	}
}

// TestPageHasEveryField: a field without a comment, or without a place on the page, is a field that
// users do not find.
func TestPageHasEveryField(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile(typesPath)
	if err != nil {
		t.Fatal(err)
	}
	structs, err := read(source)
	if err != nil {
		t.Fatal(err)
	}
	page := rendered(t)
	for name, s := range structs {
		for _, f := range s.fields {
			if f.about == "" || !strings.Contains(page, "| `"+f.name+"` | "+f.kind+" |") {
				t.Errorf("%s.%s is not on the page", name, f.name)
			}
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"not Go":          "package",
		"a missing type":  "package config",
		"a missing tag":   "package config\ntype EvictdConfiguration struct {\n\tA string\n}",
		"a bare field":    "package config\ntype EvictdConfiguration struct {\n\tA string `json:\"a\"`\n}",
		"an embedded one": "package config\ntype EvictdConfiguration struct {\n\tA `json:\"a\"`\n}",
	} {
		if page, err := render([]byte(source)); err == nil {
			t.Errorf("%s: got a page of %d bytes", name, len(page))
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for long, want := range map[string]string{"5m0s": "5m", "1h0m0s": "1h", "10ms": "10ms", "1m30s": "1m30s", "10s": "10s", "20m0s": "20m"} {
		if got := short(long); got != want {
			t.Errorf("%s: got %s, want %s", long, got, want)
		}
	}
}
