package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

//nolint:paralleltest // what others map meanwhile would be counted
func TestStartPagesAreLetGo(t *testing.T) {
	if !strings.Contains(newRootCommand(nil).UsageString(), "run") { // touches much of the program
		t.Fatal("no command run")
	}
	before := programPages(t)
	if err := dropProgramPages(); err != nil {
		t.Fatal(err)
	}
	after := programPages(t)
	t.Logf("mapped from files: %s before, %s after", before, after)
	if len(after) > len(before) || len(after) == len(before) && after >= before {
		t.Errorf("mapped from files: %s before, %s after", before, after)
	}
}

// programPages returns RssFile of /proc/self/status.
func programPages(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, found := strings.CutPrefix(line, "RssFile:"); found {
			return strings.TrimSpace(value)
		}
	}
	t.Fatal("/proc/self/status has no RssFile")
	return ""
}

func TestProgramThatLiesAsInItsFile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mode, cgo string
		want      bool
	}{{"exe", "0", true}, {"pie", "0", false}, {"exe", "1", false}, {"", "", false}} {
		settings := []debug.BuildSetting{{Key: "-buildmode", Value: test.mode}, {Key: "CGO_ENABLED", Value: test.cgo}}
		if got := liesAsInItsFile(settings); got != test.want {
			t.Errorf("%+v: %v", settings, got)
		}
	}
	if liesAsInItsFile(nil) {
		t.Error("nothing is known of it, and it lies as in its file")
	}
}

func TestMappingOf(t *testing.T) {
	t.Parallel()
	const program = "/evictd"
	for line, want := range map[string]bool{
		"00400000-01361000 r-xp 00000000 fe:00 99 /evictd\n":     true,
		"01361000-022c4000 r--p 00f61000 fe:00 99 /evictd\n":     true,
		"022c4000-0235c000 rw-p 01ec4000 fe:00 99 /evictd\n":     false,
		"00400000-01361000 r-xp 00000000 fe:00 99 /evictd.old\n": false,
		"7ffd0000-7ffd2000 r-xp 00000000 00:00 0 [vdso]\n":       false,
		"c000000000-c000400000 rw-p 00000000 00:00 0\n":          false,
		"rubbish\n": false,
		"01361000-00400000 r-xp 0 fe:00 99 /evictd\n": false,
		"x-y r-xp 0 fe:00 99 /evictd\n":               false,
	} {
		start, length, constant := mappingOf(line, program)
		if constant != want || constant && (start == 0 || length == 0) || !constant && (start != 0 || length != 0) {
			t.Errorf("%q: %#x, %#x, %v; want %v", line, start, length, constant, want)
		}
	}
	if start, length, _ := mappingOf("00400000-01361000 r-xp 00000000 fe:00 99 /evictd\n", program); start != 0x400000 || length != 0xf61000 {
		t.Errorf("%#x, %#x", start, length)
	}
}
