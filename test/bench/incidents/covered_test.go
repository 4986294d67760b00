package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// covered returns the scenarios that `make e2e` runs too, each as a test of its own.
func covered() map[int]string {
	return map[int]string{
		3:  "TestPageCacheHoldersLive",
		4:  "TestLeakWithinItsRequestGoesAtExhaustion",
		6:  "TestBudgetThatAllowsNothingKeepsItsPodAndTheNextGoes",
		7:  "TestPreStopAndGraceRunToTheirEnd",
		13: "TestUnusedImagesGoBeforePods",
		14: "TestDiskFilledByTheHostEvictsNoPod",
		17: "TestHostProcessTakesNoPodWithinItsRequest",
		18: "TestPodThatThrashesInItsOwnLimitEvictsNoPod",
		20: "TestKilledInAMemoryIncident",
	}
}

// A renamed or deleted end-to-end test would no longer be known as that of its scenario.
func TestCoveredScenariosHaveEndToEndTests(t *testing.T) {
	tests := functionsOf(t, "../../e2e")
	page, err := os.ReadFile("../../../docs/incidents.md")
	if err != nil {
		t.Fatal(err)
	}
	for number, name := range covered() {
		if !tests[name] {
			t.Errorf("scenario %d: test/e2e has no function %s", number, name)
		}
		row := fmt.Sprintf("| %d, ", number)
		listed := false
		for line := range strings.Lines(string(page)) {
			listed = listed || strings.HasPrefix(line, row) && strings.Contains(line, "`"+name+"`")
		}
		if !listed {
			t.Errorf("scenario %d: docs/incidents.md has no row with %s", number, name)
		}
	}
}

// functionsOf returns the names of the functions in the test files of a directory, whatever
// their build tags.
func functionsOf(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("looking for the tests of %s: %d files, %v", dir, len(files), err)
	}
	names := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil {
				names[f.Name.Name] = true
			}
		}
	}
	return names
}
