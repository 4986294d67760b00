// Command gendoc writes docs/configuration.md: the prose of page.md.tmpl, with the
// tables made from the comments of the configuration's types and the examples
// from the program itself. The same sources give the same page.
//
//	go run ./gendoc -types types.go -page ../../docs/configuration.md
//
// It runs in internal/config, by go generate. With -check it writes nothing and
// fails if the page is another one.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "gendoc:", err)
		os.Exit(1) //nolint:forbidigo // a command of its own, beside what it documents
	}
}

func run(args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("gendoc", flag.ContinueOnError)
	flags.SetOutput(usage)
	types := flags.String("types", "types.go", "the Go file with the configuration's types")
	page := flags.String("page", "", "the page to write")
	check := flags.Bool("check", false, "write nothing, and fail if the page is not up to date")
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
	if *check {
		return upToDate(*page, written)
	}
	if err := os.WriteFile(*page, written, 0o644); err != nil { //nolint:gosec // a page for everybody
		return fmt.Errorf("writing page: %w", err)
	}
	return nil
}

// upToDate returns an error that names the cure if the page is not what the sources
// say.
func upToDate(page string, want []byte) error {
	is, err := os.ReadFile(filepath.Clean(page))
	if err != nil {
		return fmt.Errorf("reading page: %w", err)
	}
	if !bytes.Equal(is, want) {
		return fmt.Errorf("%s is not up to date: run 'make update'", page)
	}
	return nil
}
