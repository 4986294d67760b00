package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/testing/golden"
)

const fakeKubectl = `#!/bin/sh
case "$*" in
*forbidden*) echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1 ;;
*"get pods"*'containerStatuses[?(@.name=="evictd")].state.running'*) grep -- "$(expr "$*" : '.*spec.nodeName=\([^ ]*\)')" "$FAKE/pods" || true ;;
*"get pod "*nodeName*) echo worker-1 ;;
*"config view"*) echo shop ;;
*evictd-down*) echo 'evictd: asking evictd at :9464: connection refused' >&2; echo 'command terminated with exit code 1' >&2; exit 1 ;;
*usage*) echo 'command terminated with exit code 2' >&2; exit 2 ;;
*" status") cat "$FAKE/$(expr "$*" : '.* \(evictd-[a-z]*\) -c')" ;;
*) echo "ran $*" ;;
esac
`

// fakePods are the columns that the script asks for: the owner's kind, the deletion, the node, the name and the phase of
// a pod, and of its container evictd the start, why it ended and why it waits. The pod of worker-2 is Pending because of
// another container.
const fakePods = `Job <none> worker-3 evictd-job Succeeded <none> Completed <none>
DaemonSet <none> worker-2 evictd-calm Pending 2026-01-01T00:00:00Z <none> <none>
DaemonSet <none> worker-1 evictd-busy Running 2026-01-01T00:00:00Z <none> <none>
DaemonSet 2026-01-01T00:00:00Z worker-1 evictd-zold Running 2026-01-01T00:00:00Z <none> <none>
DaemonSet <none> worker-3 evictd-down Running 2026-01-01T00:00:00Z <none> <none>
DaemonSet <none> worker-4 evictd-new Pending <none> <none> ImagePullBackOff
DaemonSet <none> worker-5 evictd-hung Running 2026-01-01T00:00:00Z <none> <none>
DaemonSet <none> worker-6 evictd-ended Running <none> OOMKilled <none>
DaemonSet <none> worker-7 evictd-unseen Pending <none> <none> <none>
`

// fakeTimeout stands in for timeout: the time of one agent is over at once.
const fakeTimeout = `#!/bin/sh
case "$*" in *evictd-hung*) exit 124 ;; esac
shift
exec "$@"
`

// TestPlugin: what each call of testdata/plugin.txt answers, by the script of `kubectl evictd` before a cluster of seven
// nodes, of which four have an agent that runs. Scripts in place of kubectl and timeout answer. A line for each agent, by
// node, is of those that answer, and one sentence is about each other one; the other commands run in the pod of the
// node's agent.
func TestPlugin(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("../../deploy/krew/kubectl-evictd")
	must(t, err)
	dir := t.TempDir()
	printed := func(mode, pressure string) string {
		return "worker at 2026-11-20T02:14:07Z: memory.available is 1.0Gi of 2.0Gi; its hard threshold is 0.1Gi\n" +
			"EVICTD         v0.1.0 v0.1.0-3-gabcdef0\nMODE           " + mode + "\nPRESSURE       " + pressure +
			"\nLAST EVICTION  1s ago shop/large\nLAST TICK      0s ago\n\nMODE  none\n"
	}
	for name, text := range map[string]string{
		"kubectl": fakeKubectl, "timeout": fakeTimeout, "pods": fakePods,
		"evictd-busy": printed("acts", "memory.available\n               hard"), "evictd-calm": printed("dry run: --dry-run is set", "none"),
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	golden.Sections(t, "testdata/plugin.txt", *update, "go test ./cmd/evictd -update", func(line, _ string) []string {
		args := strings.Fields(line)[2:] // "kubectl evictd" is before them
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "$SPACE", " ")
		}
		command := exec.CommandContext(t.Context(), script, args...)
		command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FAKE="+dir)
		var out, errs bytes.Buffer
		command.Stdout, command.Stderr = &out, &errs
		if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		faults := slices.Sorted(strings.Lines(errs.String())) // of many nodes at once, in no order
		return answered(command.ProcessState.ExitCode(), out.String(), strings.Join(faults, ""))
	})
}

// The template of the Krew manifest names the script, for all platforms that have a shell, and
// `make krew` fills in every gap.
func TestKrewTemplate(t *testing.T) {
	t.Parallel()
	text := readDoc(t, "deploy/krew/evictd.yaml")
	var manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Platforms []struct{ URI, Bin string }
		}
	}
	must(t, yaml.Unmarshal([]byte(text), &manifest))
	if p := manifest.Spec.Platforms; manifest.Kind != "Plugin" || manifest.Metadata.Name != "evictd" || len(p) != 1 ||
		p[0].Bin != "kubectl-evictd" || !strings.HasSuffix(p[0].URI, "/kubectl-evictd.tar.gz") {
		t.Errorf("%+v", manifest)
	}
	filled := readDoc(t, "Makefile")
	for _, gap := range regexp.MustCompile(`"[^"]*(@\w+@)[^"]*"`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(filled, "s|"+gap[1]+"|") {
			t.Errorf("make krew does not fill in %s", gap[1])
		}
	}
}
