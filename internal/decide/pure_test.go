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
		for _, d := range file.Decls {
			if general, is := d.(*ast.GenDecl); is && general.Tok == token.VAR {
				t.Errorf("%s: a variable of the package", set.Position(d.Pos()))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SendStmt, *ast.SelectStmt:
				t.Errorf("%s: a goroutine or a channel", set.Position(n.Pos()))
			}
			return true
		})
	}
}
