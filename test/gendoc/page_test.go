package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/config"
)

// rendered returns the page, and the types that it is made from.
func rendered(t *testing.T) (page string, structs map[string]structure) {
	t.Helper()
	source, err := os.ReadFile("../../internal/config/types.go")
	made, fault := render(source)
	structs, unread := read(source)
	if err = errors.Join(err, fault, unread); err != nil {
		t.Fatal(err)
	}
	return string(made), structs
}

// TestPageExamples: every example on the page that is a whole file is valid.
func TestPageExamples(t *testing.T) {
	t.Parallel()
	page, _ := rendered(t)
	files := 0
	for i, part := range strings.Split(page, "```") {
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
	page, structs := rendered(t)
	for name, s := range structs {
		for _, f := range s.fields {
			if f.about == "" || !strings.Contains(page, "| `"+f.name+"` | "+f.kind+" |") {
				t.Errorf("%s.%s is not on the page", name, f.name)
			}
		}
	}
}
