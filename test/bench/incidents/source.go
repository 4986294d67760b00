package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"
)

// measuredPaths are what a result depends on, in this repository: evictd, what is shipped, the
// node, and the benchmark itself.
func measuredPaths() []string {
	return []string{
		"cmd", "internal", "pkg", "deploy", "go.mod", "go.sum",
		"test/bench/incidents", "test/cluster", "test/image",
		"test/internal/eventually", "test/internal/measure", "test/internal/memory", "test/internal/node", "test/internal/pages",
		"test/go.mod", "test/go.sum",
	}
}

// dirtyMark ends the hash of a tree with changes that are not committed.
const dirtyMark = "-dirty"

// sourceHash returns one hash over all files that a result depends on: commits that change
// only tests and documentation have the same. It is of the commit that is checked out; changes
// that are not committed are marked. Without git it is an error.
func sourceHash(ctx context.Context) (string, error) {
	top, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	top = strings.TrimSpace(top)
	listed, err := git(ctx, top, append([]string{"ls-tree", "-r", "HEAD", "--"}, measuredPaths()...)...)
	if err != nil {
		return "", err
	}
	changed, err := git(ctx, top, append([]string{"status", "--porcelain", "--no-renames", "--untracked-files=all", "--"}, measuredPaths()...)...)
	if err != nil {
		return "", err
	}
	hash, err := hashOf(listed)
	if err == nil && anyMeasured(changed) {
		hash += dirtyMark
	}
	return hash, err
}

// git runs git in a directory.
func git(ctx context.Context, dir string, arguments ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, arguments...)...).Output() //nolint:gosec // constants
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return "", fmt.Errorf("running git %s: %w: %s", arguments[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("running git %s: %w", arguments[0], err)
	}
	return string(output), nil
}

// hashOf returns the hash of what `git ls-tree -r` has listed, without tests and documentation.
func hashOf(listed string) (string, error) {
	const length = 6 // bytes; enough to tell the builds of one repository apart
	sum, files := sha256.New(), 0
	for line := range strings.Lines(listed) {
		_, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !found {
			return "", fmt.Errorf("listing the source: unexpected line %q", line)
		}
		if measured(name) {
			_, _ = sum.Write([]byte(line)) // never fails
			files++
		}
	}
	if files == 0 {
		return "", errors.New("listing the source: there is none")
	}
	return hex.EncodeToString(sum.Sum(nil)[:length]), nil
}

// anyMeasured reports whether `git status --porcelain` names a file that a result depends on.
func anyMeasured(changed string) bool {
	const state = 3 // two letters and a blank
	for line := range strings.Lines(changed) {
		if name := strings.TrimSuffix(line, "\n"); len(name) > state && measured(strings.Trim(name[state:], `"`)) {
			return true
		}
	}
	return false
}

// measured reports whether a file affects what is measured: tests and documentation do not.
func measured(name string) bool {
	return !strings.HasSuffix(name, "_test.go") && path.Ext(name) != ".md" && !strings.Contains("/"+name, "/testdata/")
}
