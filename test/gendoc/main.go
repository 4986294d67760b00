// Command gendoc writes docs/configuration.md: the prose of page.md.tmpl, with the
// tables made from the comments of the configuration's types and the examples
// from the program itself. The same sources give the same page.
//
// It runs in the folder test, by go generate in internal/config.
package main

import (
	"fmt"
	"os"
)

func main() {
	var page []byte
	source, err := os.ReadFile("../internal/config/types.go")
	if err == nil {
		page, err = render(source)
	}
	if err == nil {
		err = os.WriteFile("../docs/configuration.md", page, 0o644) //nolint:gosec // a page for everybody
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}
