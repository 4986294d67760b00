package main

import (
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/config"
)

const typesPath = "../../internal/config/types.go"

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
