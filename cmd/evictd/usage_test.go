package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/testing/golden"
)

// call runs evictd as main does.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return callWith(t, strings.NewReader(""), args...)
}

// callWith is call with a standard input.
func callWith(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRootCommand(func(klog.Logger) {})
	var out, errs bytes.Buffer
	root.SetIn(stdin)
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = run(t.Context(), root)
	return code, out.String(), errs.String()
}

// answered are the lines of a section for what a call answered.
func answered(code int, stdout, stderr string) []string {
	said := []string{fmt.Sprintf("exit %d", code)}
	for _, text := range []struct{ prefix, text string }{{"stdout: ", stdout}, {"stderr: ", stderr}} {
		for printed := range strings.Lines(text.text) {
			said = append(said, text.prefix+strings.TrimRight(printed, "\n"))
		}
	}
	return said
}

// TestCalls: what each call of testdata/calls.txt answers. A section is a command line, behind the variables that are
// set for it, with "" for an empty argument; what follows is the content of $FILE, and the standard input. A wrong call
// ends with exit code 2 and says what is wrong.
func TestCalls(t *testing.T) {
	noProc := machine(t, "proc")
	golden.Sections(t, "testdata/calls.txt", *update, "go test ./cmd/evictd -update", func(name, content string) (said []string) {
		t.Run(name, func(t *testing.T) {
			file, valid := writeFile(t, "file", content), configFile(t, head)
			line, _, _ := strings.Cut(name, ", which is: ")
			variables, words, _ := strings.Cut(line, "evictd")
			for variable := range strings.FieldsSeq(variables) {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			fill := strings.NewReplacer(`""`, "", "$FILE", file, "$CONFIG", valid, "$NOPROC", noProc)
			args := []string{}
			for arg := range strings.FieldsSeq(words) {
				args = append(args, fill.Replace(arg))
			}
			code, stdout, stderr := callWith(t, strings.NewReader(content), args...)
			if code == exitUsage && stdout != "" || code == exitFault && strings.Count(stderr, "\n") != 1 && args[0] != "config" {
				t.Errorf("stdout %q, stderr %q", stdout, stderr)
			}
			names := strings.NewReplacer(filepath.Dir(file), "$DIR", valid, "$CONFIG", noProc, "$NOPROC")
			said = answered(code, names.Replace(stdout), names.Replace(stderr))
		})
		return said
	})
}

// `evictd --version` prints what `evictd version` does.
func TestVersionFlag(t *testing.T) {
	t.Parallel()
	code, flag, _ := call(t, "--version")
	_, command, _ := call(t, "version")
	if code != exitFine || flag != command || !strings.HasPrefix(flag, "evictd devel (") {
		t.Errorf("exit %d, %q, and the command prints %q", code, flag, command)
	}
}

// The help of each command, by --help and by `evictd help`, has examples, and they have no flag that is not there.
func TestEachCommandHasExamples(t *testing.T) {
	t.Parallel()
	root := newRootCommand(func(klog.Logger) {})
	commands := []*cobra.Command{root}
	for i := 0; i < len(commands); i++ {
		cmd := commands[i]
		commands = append(commands, cmd.Commands()...)
		words := strings.Fields(cmd.CommandPath())[1:]
		code, printed, _ := call(t, append(slices.Clone(words), "--help")...)
		_, same, _ := call(t, append([]string{"help"}, words...)...)
		if code != exitFine || !strings.Contains(printed, "\nExamples:\n  ") || same != printed {
			t.Errorf("%s --help: exit %d\n%s\nand help prints\n%s", cmd.CommandPath(), code, printed, same)
		}
		for example := range strings.Lines(cmd.Example) {
			words := strings.Fields(example)
			of, rest, err := root.Find(words[1:])
			if words[0] == "evictd" && (err != nil || of.ParseFlags(rest) != nil) {
				t.Errorf("%s: %q is not as evictd reads it", cmd.CommandPath(), example)
			}
		}
	}
	if len(commands) < 15 {
		t.Errorf("only %d commands", len(commands))
	}
}

const kubeconfigHead = "apiVersion: v1\nkind: Config\n"

// writeFile writes a file into the test's own directory.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
