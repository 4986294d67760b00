package record

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// keysIn returns the keys of log lines that a call writes: zap's first argument, and every other one of
// [with] and [fields.some].
func keysIn(call *ast.CallExpr) (keys []string) {
	literal := func(at int) {
		if text, is := call.Args[at].(*ast.BasicLit); is && text.Kind == token.STRING {
			key, _ := strconv.Unquote(text.Value)
			keys = append(keys, key)
		}
	}
	pairs := func() {
		for at := 0; at < len(call.Args); at += 2 {
			literal(at)
		}
	}
	switch called := call.Fun.(type) {
	case *ast.Ident:
		switch called.Name {
		case "objects":
			literal(0)
		case "with":
			pairs()
		}
	case *ast.SelectorExpr:
		of, _ := called.X.(*ast.Ident)
		switch {
		case called.Sel.Name == "some", called.Sel.Name == "with":
			pairs()
		case of != nil && of.Name == "zap" && called.Sel.Name == "Error":
			keys = append(keys, "error")
		case of != nil && of.Name == "zap" && len(call.Args) == 2:
			literal(0)
		}
	}
	return keys
}

// A line that says that something works, or why nothing is wrong, has no key error, for which one searches the log.
func TestNoErrorWhereNothingIsWrong(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/stories.golden")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, `{"level":"info"`) && strings.Contains(line, `"error":`) {
			t.Errorf("an error that is none: %s", line)
		}
	}
}

// Every key that is written has a row in docs/runbook.md, and every row is about a key that is
// written.
func TestEveryKeyIsInTheRunbook(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	written := []string{"ts", "level", "msg"}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, fault := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if fault != nil {
			t.Fatal(fault)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is {
				written = append(written, keysIn(call)...)
			}
			return true
		})
	}
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Keys\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	slices.Sort(written)
	if diff := cmp.Diff(documented, slices.Compact(written)); diff != "" {
		t.Errorf("keys (-docs/runbook.md +written):\n%s", diff)
	}
}
