// Package cgrouptest makes real cgroups for tests, and runs processes in them.
package cgrouptest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
)

// Mount is where a node mounts its cgroups.
const Mount = "/sys/fs/cgroup"

// Groups are cgroups of this machine below one of the test.
type Groups struct {
	testing.TB
	kernelfile.Hierarchy

	Own         string // the test's group, with a leading slash
	controllers []string
}

// New prepares to make groups, in which these controllers of cgroup v2 are enabled, or skips the test where that is not
// allowed.
func New(tb testing.TB, controllers ...string) *Groups {
	tb.Helper()
	h, err := kernelfile.HierarchyOf(Mount)
	if err != nil || os.Geteuid() != 0 {
		tb.Skipf("SKIP: only root may make cgroups, where there are some: %v", err)
	}
	own := fmt.Sprintf("/evictd-test-%d-%s", os.Getpid(), strings.NewReplacer("/", "-", "#", "-").Replace(tb.Name()))
	return &Groups{tb, h, own, controllers}
}

// Roots returns the directories of the hierarchies that a pod has a group in.
func (g *Groups) Roots() []string {
	if g.Unified || g.PIDs == "" {
		return []string{g.Memory}
	}
	return []string{g.Memory, g.PIDs}
}

// Make makes a group and its parents; they are removed after the test.
func (g *Groups) Make(group string) {
	g.Helper()
	for _, dir := range g.Roots() {
		for name := range strings.SplitSeq(strings.TrimPrefix(group, "/"), "/") {
			if g.Unified {
				g.Enable(dir)
			}
			dir = filepath.Join(dir, name)
			err := os.Mkdir(dir, 0o755) //nolint:gosec // as the kernel's
			switch {
			case errors.Is(err, os.ErrExist):
				continue
			case err != nil:
				g.Skipf("SKIP: the cgroups cannot be written: %v", err)
			}
			made := dir
			g.Cleanup(func() { g.Remove(made) })
		}
	}
}

// Enable switches the controllers on for the groups below a directory of cgroup v2.
func (g *Groups) Enable(dir string) {
	g.Helper()
	control := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(control) //nolint:gosec // a test's own
	if err != nil {
		g.Fatal(err)
	}
	for _, controller := range g.controllers {
		if slices.Contains(strings.Fields(string(enabled)), controller) {
			continue
		}
		if err := os.WriteFile(control, []byte("+"+controller), 0); err != nil {
			g.Skipf("SKIP: the controller %s cannot be enabled: %v", controller, err)
		}
	}
}

// Remove removes a group. An ended process may occupy it for a moment.
func (g *Groups) Remove(dir string) {
	g.Helper()
	var err error
	if !Patiently(func() bool {
		err = os.Remove(dir)
		return err == nil || errors.Is(err, os.ErrNotExist)
	}) {
		g.Errorf("removing the group: %v", err)
	}
}

// Patiently looks again and again whether the kernel has done something, for 2 minutes.
func Patiently(done func() bool) bool {
	for end := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
