package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		arguments []string
		code      int
		says      string
	}{
		{nil, exitUsage, "usage:"},
		{[]string{"dance"}, exitUsage, "usage:"},
		{[]string{"up", "--dance"}, exitUsage, "dance"},
		{[]string{"up", "dance"}, exitUsage, "dance"},
		{[]string{"up", "--help"}, 0, "state folder"},
		{[]string{"status", "--dir", dir}, exitFault, "no cluster was started here"},
		{[]string{"down", "--dir", dir}, 0, "No cluster is in"},
	} {
		var said bytes.Buffer
		if code := run(t.Context(), test.arguments, &said, &said); code != test.code || !strings.Contains(said.String(), test.says) {
			t.Errorf("%v: code %d, said %q", test.arguments, code, said.String())
		}
	}
}
