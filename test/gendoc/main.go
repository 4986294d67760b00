// Command gendoc writes docs/configuration.md: the prose of page.md.tmpl, with the
// tables made from the comments of the configuration's types and the examples
// from the program itself. The same sources give the same page.
//
//	go run ./gendoc -types ../internal/config/types.go -page ../docs/configuration.md
//
// It runs by go generate in internal/config.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1)
	}
}

func run(args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("gendoc", flag.ContinueOnError)
	flags.SetOutput(usage)
	types := flags.String("types", "types.go", "the Go file with the configuration's types")
	page := flags.String("page", "", "the page to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	source, err := os.ReadFile(filepath.Clean(*types))
	if err != nil {
		return fmt.Errorf("reading types: %w", err)
	}
	written, err := render(source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*page, written, 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("writing page: %w", err)
	}
	return nil
}
