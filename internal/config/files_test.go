package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/pressure"
)

// TestFiles: what each file of testdata/files.txt, behind the usual head, gives: its faults, or the fields that differ from
// the defaults, the thresholds where they do, and the warnings.
func TestFiles(t *testing.T) {
	t.Parallel()
	golden.Sections(t, filepath.Join("testdata", "files.txt"), os.Getenv("UPDATE_GOLDEN") == "1", "UPDATE_GOLDEN=1", func(name, file string) []string {
		if strings.HasPrefix(name, "whole file: ") {
			return said(t, file)
		}
		return said(t, head+file)
	})
}

// said is what is said of a file.
func said(t *testing.T, file string) (all []string) {
	t.Helper()
	c, err := ParseFile("evictd.yaml", []byte(file))
	if c == nil == (err == nil) {
		t.Errorf("%q gives %v and %v", file, c, err)
	}
	if err != nil {
		follow(t, file)
		return prefixed("refused: ", faultsIn(t, err))
	}
	ours, defaults := fieldsOf(t, c), fieldsOf(t, Default())
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		if ours[name] != defaults[name] {
			all = append(all, name+": "+ours[name])
		}
	}
	if lines := inForce(t, c); !slices.Equal(lines, inForce(t, Default())) {
		all = append(all, prefixed("threshold: ", lines)...)
	}
	anywhere, here := c.Warnings(nil), c.Warnings(node)
	all = append(all, prefixed("warning: ", anywhere)...)
	if !slices.Equal(anywhere, here) {
		all = append(all, prefixed("warning on this node: ", here)...)
	}
	if len(all) == 0 {
		return []string{"the defaults"}
	}
	return all
}

// node has 100 GiB of memory and disk, and inodes that are not known.
func node(signal pressure.Signal) int64 {
	if signal == pressure.NodeFSInodesFree {
		return 0
	}
	return 100 << 30
}

// prefixed returns the lines with what comes before each.
func prefixed(prefix string, lines []string) (all []string) {
	for _, line := range lines {
		all = append(all, prefix+line)
	}
	return all
}

// fieldsOf returns the fields of a configuration as JSON; "" is one that is not written.
func fieldsOf(t *testing.T, c *EvictdConfiguration) map[string]string {
	t.Helper()
	text, err := json.Marshal(c)
	must.Succeed(t, err)
	var fields map[string]json.RawMessage
	must.Succeed(t, json.Unmarshal(text, &fields))
	all := map[string]string{}
	for name, value := range fields {
		all[name] = string(value)
	}
	return all
}

// inForce returns the thresholds, each with its amounts of 1 TiB and of 2 TiB.
func inForce(t *testing.T, c *EvictdConfiguration) (lines []string) {
	t.Helper()
	thresholds := c.Thresholds()
	of := func(q pressure.Quantity) string { return fmt.Sprintf("%d or %d", q.Of(1<<40), q.Of(2<<40)) }
	for i := range thresholds {
		l := &thresholds[i]
		lines = append(lines, fmt.Sprintf("%s %s %s is %s, grace %v, reclaim %s", l.Kind(), l.Signal, l.Written, of(l.Quantity), l.Grace, of(l.MinReclaim)))
	}
	if lines == nil {
		return []string{"none"}
	}
	return lines
}
