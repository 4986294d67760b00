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
	if err := run("../internal/config/types.go", "../docs/configuration.md"); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

func run(types, page string) error {
	source, err := os.ReadFile(types) //nolint:gosec // a constant
	if err != nil {
		return fmt.Errorf("reading types: %w", err)
	}
	written, err := render(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, written, 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("writing page: %w", err)
	}
	return nil
}
