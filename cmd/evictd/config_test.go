package main

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/strictyaml"
)

func configFile(t *testing.T, content string) string {
	t.Helper()
	return writeFile(t, "evictd.yaml", content)
}

const head = "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"

func TestConfigDefaultsValidate(t *testing.T) {
	t.Parallel()
	_, defaults, _ := call(t, "config", "defaults")
	code, stdout, stderr := callWith(t, strings.NewReader(defaults), "config", "validate", "-")
	if code != exitFine || stdout != "-: valid\n" || stderr != "" {
		t.Errorf("code %d, %s%s:\n%s", code, stdout, stderr, defaults)
	}
}

// Of the standard input no more is read than a file may have.
func TestConfigValidateReadsNoMoreThanAFile(t *testing.T) {
	t.Parallel()
	stdin := strings.NewReader(strings.Repeat("#\n", strictyaml.MaxBytes))
	code, _, stderr := callWith(t, stdin, "config", "validate", "-")
	if code != exitFault || !strings.HasPrefix(stderr, "-:1: is larger than 1 MiB: ") || stdin.Len() < strictyaml.MaxBytes-1 {
		t.Errorf("exit %d, %q, and %d bytes are left", code, stderr, stdin.Len())
	}
}
