package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// measuredPaths are what a result depends on, as git names paths: evictd, what is shipped, the node, and the
// benchmark itself, without tests, documentation and the soak, which has no results.
func measuredPaths() []string {
	return []string{
		"cmd", "internal", "pkg", "deploy", "go.mod", "go.sum",
		"test/bench/incidents", "test/cluster", "test/image",
		"test/internal/eventually", "test/internal/measure", "test/internal/memory", "test/internal/node", "test/internal/pages", "test/internal/rig",
		"test/go.mod", "test/go.sum",
		":!test/bench/incidents/soak.go", ":!test/bench/incidents/vitals.go",
		":!*_test.go", ":!*.md", ":!*/testdata/*",
	}
}

// dirtyMark ends the name of a source with changes that are not committed.
const dirtyMark = "-dirty"

// sourceOf names what a result depends on by the last commit that changed it: later commits of tests and
// documentation have the same. Changes that are not committed are marked. Without git it is an error.
func sourceOf(ctx context.Context) (string, error) {
	top, err := git(ctx, ".", "rev-parse", "--show-toplevel")
	if err != nil {
		return "", err
	}
	commit, err := git(ctx, top, slices.Concat([]string{"log", "-1", "--format=%h", "--abbrev=12", "--"}, measuredPaths())...)
	if err != nil {
		return "", err
	}
	if commit == "" {
		return "", errors.New("looking for the source: no commit has it")
	}
	changed, err := git(ctx, top, slices.Concat([]string{"status", "--porcelain", "--untracked-files=all", "--"}, measuredPaths())...)
	if changed != "" {
		commit += dirtyMark
	}
	return commit, err
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
	return strings.TrimSpace(string(output)), nil
}
