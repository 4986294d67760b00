package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// runConfig runs `evictd config ...` as main does.
func runConfig(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := &cobra.Command{Use: "evictd", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(newConfigCommand())
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"config"}, args...))
	code = run(t.Context(), root)
	return code, out.String(), errs.String()
}

func configFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "evictd.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	t.Run("a valid file", func(t *testing.T) {
		t.Parallel()
		path := configFile(t, head)
		code, stdout, stderr := runConfig(t, "validate", path)
		if code != 0 || stdout != path+": valid\n" || stderr != "" {
			t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	})
	t.Run("three faults are three lines with their paths", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := runConfig(t, "validate", configFile(t, head+`
evictionHard: {memory.available: NaN%}
evictionSoft: {nodefs.available: 10%}
colour: red
`))
		if code != 1 || stdout != "" {
			t.Errorf("code %d, stdout %q", code, stdout)
		}
		var paths []string
		for line := range strings.Lines(stderr) {
			path, _, _ := strings.Cut(line, ": ")
			paths = append(paths, path)
		}
		want := []string{"colour", "evictionHard[memory.available]", "evictionSoftGracePeriod[nodefs.available]"}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Errorf("paths (-want +got):\n%s\nstderr:\n%s", diff, stderr)
		}
	})
	t.Run("a file that is not there", func(t *testing.T) {
		t.Parallel()
		code, _, stderr := runConfig(t, "validate", filepath.Join(t.TempDir(), "none.yaml"))
		if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "no such file") {
			t.Errorf("code %d, stderr %q", code, stderr)
		}
	})
	t.Run("no file named", func(t *testing.T) {
		t.Parallel()
		if code, _, stderr := runConfig(t, "validate"); code != 2 || stderr == "" {
			t.Errorf("code %d, stderr %q", code, stderr)
		}
	})
	t.Run("no command named", func(t *testing.T) {
		t.Parallel()
		if code, _, stderr := runConfig(t); code != 2 || !strings.Contains(stderr, "defaults or validate") {
			t.Errorf("code %d, stderr %q", code, stderr)
		}
	})
}

func TestConfigDefaultsValidate(t *testing.T) {
	t.Parallel()
	code, defaults, stderr := runConfig(t, "defaults")
	if code != 0 || stderr != "" || defaults == "" {
		t.Fatalf("code %d, stdout %q, stderr %q", code, defaults, stderr)
	}
	if code, _, stderr := runConfig(t, "validate", configFile(t, defaults)); code != 0 {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}
