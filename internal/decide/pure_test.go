package decide_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// TestDecidingStartsAndSharesNothing: depguard bars what could wait, read or share; the language
// itself can still start a goroutine, use a channel and keep a variable.
func TestDecidingStartsAndSharesNothing(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files of the package, error %v", len(files), err)
	}
	set := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, fault := parser.ParseFile(set, name, nil, 0)
		if fault != nil {
			t.Fatal(fault)
		}
		for _, found := range impure(file) {
			t.Errorf("%s: %s", set.Position(found.Pos()), "a goroutine, a channel or a variable of the package")
		}
	}
	planted, err := parser.ParseFile(set, "planted.go", "package p\nvar v int\nfunc f(c chan int) { go f(nil); c <- 1; select {} }", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(impure(planted)); got != 5 {
		t.Errorf("%d planted faults were found, want 5", got)
	}
}

// impure returns what a pure package has no use for.
func impure(file *ast.File) (faults []ast.Node) {
	for _, d := range file.Decls {
		if general, is := d.(*ast.GenDecl); is && general.Tok == token.VAR {
			faults = append(faults, general)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
			faults = append(faults, n)
		}
		return true
	})
	return faults
}
