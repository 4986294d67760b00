package main

import (
	"testing"
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
