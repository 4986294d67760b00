package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/config"
)

func configFile(t *testing.T, content string) string {
	t.Helper()
	return writeFile(t, "evictd.yaml", content)
}

const head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"

func TestConfigDefaultsValidate(t *testing.T) {
	t.Parallel()
	code, defaults, stderr := call(t, "config", "defaults")
	if code != exitFine || stderr != "" || defaults == "" {
		t.Fatalf("code %d, stdout %q, stderr %q", code, defaults, stderr)
	}
	if code, _, stderr := call(t, "config", "validate", configFile(t, defaults)); code != exitFine {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
}

// TestConfigValidateSeveral: each file is checked whatever is wrong with the others, and each line names its file.
func TestConfigValidateSeveral(t *testing.T) {
	t.Parallel()
	valid, warned := configFile(t, head), configFile(t, head+"protect: {namespaces: []}\n")
	refused := configFile(t, head+"# a comment\ncolour: red\ndryrun: false\n")
	for _, test := range []struct {
		files          []string
		code           int
		stdout, stderr string
	}{
		{[]string{valid, warned}, exitFine, "VALID: valid\nWARNED: valid\n", "WARNED: warning: protect.namespaces: " +
			"kube-system is not among them: pods of the cluster itself, such as its DNS, may be evicted\n"},
		{
			[]string{refused, valid, "none.yaml"},
			exitFault, "VALID: valid\n",
			"REFUSED:4: colour: Forbidden: unknown field: correct its name, or remove it\n" +
				"REFUSED:5: dryrun: Forbidden: unknown field: did you mean dryRun?\n" +
				"none.yaml: reading configuration: open none.yaml: no such file or directory\n",
		},
	} {
		code, stdout, stderr := call(t, append([]string{"config", "validate"}, test.files...)...)
		names := strings.NewReplacer(valid, "VALID", warned, "WARNED", refused, "REFUSED")
		if code != test.code || names.Replace(stdout) != test.stdout || names.Replace(stderr) != test.stderr {
			t.Errorf("code %d, stdout %q, stderr %q, want %+v", code, names.Replace(stdout), names.Replace(stderr), test)
		}
	}
}

func TestConfigValidateStandardInput(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		head:                     "-: valid\n",
		head + "taintnode: true": "-:3: taintnode: ",
		"":                       "-:1: has no text: ",
		strings.Repeat("#\n", config.MaxFileBytes): "-:1: is larger than 1 MiB: ",
	} {
		root := newRootCommand(func(klog.Logger) {})
		var said bytes.Buffer
		stdin := strings.NewReader(input)
		root.SetIn(stdin)
		root.SetOut(&said)
		root.SetErr(&said)
		root.SetArgs([]string{"config", "validate", "-"})
		if code := run(t.Context(), root); code == exitFine != strings.HasSuffix(want, "valid\n") || !strings.HasPrefix(said.String(), want) {
			t.Errorf("%.200q: exit %d, %q, want %q", input, code, said.String(), want)
		}
		if read := len(input) - stdin.Len(); read > config.MaxFileBytes+1 {
			t.Errorf("%d bytes of stdin are read", read)
		}
	}
}

// TestConfigValidateManifest: the manifest as it is shipped is checked in place, and a fault has the manifest's line.
func TestConfigValidateManifest(t *testing.T) {
	t.Parallel()
	const path, good, bad = "../../deploy/daemonset.yaml", "    dryRun: true\n", "    dryRun: maybe\n"
	if code, stdout, stderr := call(t, "config", "validate", path); code != exitFine || stdout != path+": valid\n" {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	manifest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(manifest), good)
	file := configFile(t, before+bad+after)
	want := file + ":" + strconv.Itoa(strings.Count(before, "\n")+1) + `: dryRun: Invalid value: "maybe": must be true or false, without quotes` + "\n"
	if code, _, stderr := call(t, "config", "validate", file); !found || code != exitFault || stderr != want {
		t.Errorf("exit %d, stderr %q, want %q", code, stderr, want)
	}
}
