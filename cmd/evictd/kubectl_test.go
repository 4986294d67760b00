package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// plugin is the script of `kubectl evictd` before a cluster of five nodes, of which four have an agent
// that runs. A script in place of kubectl answers, and notes its arguments.
type plugin struct {
	t      *testing.T
	script string
	dir    string
}

const fakeKubectl = `#!/bin/sh
echo "$*" >>"$FAKE/calls"
case "$*" in
*forbidden*) echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1 ;;
*"get pods"*) grep -- "$(expr "$*" : '.*spec.nodeName=\([^ ]*\)')" "$FAKE/pods" || true ;;
*"get pod "*nodeName*) echo worker-1 ;;
*"config view"*) echo shop ;;
*evictd-down*) echo 'evictd: asking evictd at :9464: connection refused' >&2; echo 'command terminated with exit code 1' >&2; exit 1 ;;
*usage*) echo 'command terminated with exit code 2' >&2; exit 2 ;;
*" status") cat "$FAKE/$(expr "$*" : '.* \(evictd-[a-z]*\) -c')" ;;
*) echo "ran $*" ;;
esac
`

const fakePods = `Job <none> worker-3 evictd-job Succeeded <none>
DaemonSet <none> worker-2 evictd-calm Running <none>
DaemonSet <none> worker-1 evictd-busy Running <none>
DaemonSet 2026-01-01T00:00:00Z worker-1 evictd-zold Running <none>
DaemonSet <none> worker-3 evictd-down Running <none>
DaemonSet <none> worker-4 evictd-new Pending ImagePullBackOff
DaemonSet <none> worker-5 evictd-hung Running <none>
`

// fakeTimeout stands in for timeout: the time of one agent is over at once.
const fakeTimeout = `#!/bin/sh
case "$*" in *evictd-hung*) exit 124 ;; esac
shift
exec "$@"
`

func newPlugin(t *testing.T) *plugin {
	t.Helper()
	script, err := filepath.Abs("../../deploy/krew/kubectl-evictd")
	if err != nil {
		t.Fatal(err)
	}
	p := &plugin{t: t, script: script, dir: t.TempDir()}
	printed := func(mode, pressure string) string {
		return "worker at 2026-11-20T02:14:07Z: memory.available is 1.0Gi of 2.0Gi; its hard threshold is 0.1Gi\n" +
			"EVICTD         v0.1.0 v0.1.0-3-gabcdef0\nMODE           " + mode + "\nPRESSURE       " + pressure +
			"\nLAST EVICTION  1s ago shop/large\nLAST TICK      0s ago\n\nMODE  none\n"
	}
	for name, text := range map[string]string{
		"kubectl": fakeKubectl, "timeout": fakeTimeout, "pods": fakePods,
		"evictd-busy": printed("acts", "memory.available\n               hard"), "evictd-calm": printed("dry run: --dry-run is set", "none"),
	} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run calls the plugin, as kubectl does.
func (p *plugin) run(args ...string) (code int, stdout, stderr string) {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), p.script, args...)
	command.Env = append(os.Environ(), "PATH="+p.dir+":"+os.Getenv("PATH"), "FAKE="+p.dir)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		p.t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), out.String(), errs.String()
}

// A line for each agent that answers, by node, and one sentence about each other one.
func TestPluginListsTheNodes(t *testing.T) {
	t.Parallel()
	p := newPlugin(t)
	for _, parallel := range []string{"1", "16"} {
		code, stdout, stderr := p.run("nodes", "--parallel", parallel)
		const want = `NODE      MODE     PRESSURE               LAST EVICTION      LAST TICK  VERSION
worker-1  acts     memory.available hard  1s ago shop/large  0s ago     v0.1.0
worker-2  dry run  none                   1s ago shop/large  0s ago     v0.1.0
`
		if code != exitFault || stdout != want {
			t.Errorf("exit code %d, stdout\n%s\nwant 1 and\n%s", code, stdout, want)
		}
		for _, fault := range []string{
			"evictd: node worker-3: no answer from pod evictd/evictd-down: evictd: asking evictd at :9464: connection refused command terminated with exit code 1\n",
			"evictd: node worker-4: pod evictd/evictd-new does not run: ImagePullBackOff\n",
			"evictd: node worker-5: no answer from pod evictd/evictd-hung within 10s\n",
		} {
			if !strings.Contains(stderr, fault) || strings.Count(stderr, "\n") != 3 {
				t.Errorf("stderr\n%s\nlacks %q", stderr, fault)
			}
		}
	}
}

// The other commands run in the pod of the node's agent: in its environment, with its output and its exit code.
func TestPluginRunsInTheAgentsPod(t *testing.T) {
	t.Parallel()
	p := newPlugin(t)
	for _, test := range []struct {
		args []string
		code int
		want string // of stdout and stderr
	}{
		{[]string{"rank", "worker-1", "--signal", "nodefs.available", "-o", "wide"}, 0, "ran exec -n evictd evictd-busy -c evictd -- /evictd rank --signal=nodefs.available -o=wide\n"},
		{[]string{"rank", "--kubeconfig=a file", "--context", "x", "-n", "ns", "-l", "a=b", "worker-2"}, 0, "ran --kubeconfig=a file --context=x exec -n ns evictd-calm -c evictd -- /evictd rank\n"},
		{[]string{"rank", "worker-1", "--signal=usage"}, 2, "command terminated with exit code 2\n"},
		{[]string{"why", "web"}, 0, "ran exec -n evictd evictd-busy -c evictd -- /evictd rank --why=shop/web\n"},
		{[]string{"why", "other/web", "--evictd-namespace", "ns", "--signal=pid.available"}, 0, "ran exec -n ns evictd-busy -c evictd -- /evictd rank --why=other/web --signal=pid.available\n"},
		{[]string{"why", "-n", "other", "web"}, 0, "ran exec -n evictd evictd-busy -c evictd -- /evictd rank --why=other/web\n"},
		{[]string{"doctor", "worker-1", "-o", "json"}, 0, "ran exec -n evictd evictd-busy -c evictd -- /evictd doctor -o=json\n"},
		{[]string{"rank", "worker-4"}, 1, "evictd: node worker-4: pod evictd/evictd-new does not run: ImagePullBackOff\n"},
		{[]string{"rank", "worker-9"}, 1, "evictd: node worker-9 has no pod of a DaemonSet with the labels app.kubernetes.io/name=evictd in namespace evictd, or there is no such node\n"},
		{[]string{"nodes", "-n", "forbidden"}, 1, "Error from server (Forbidden): pods is forbidden\n"},
		{[]string{"rank"}, 2, "evictd: rank takes one node, not 0 (see kubectl evictd --help)\n"},
		{[]string{"nodes", "x"}, 2, "evictd: nodes takes no argument, not 1 (see kubectl evictd --help)\n"},
		{[]string{"why", "a/b/c"}, 2, "evictd: pod a/b/c: write POD or NAMESPACE/POD (see kubectl evictd --help)\n"},
		{[]string{"nodes", "--colour", "red"}, 2, "evictd: nodes has no flag --colour (see kubectl evictd --help)\n"},
		{[]string{"nodes", "--parallel"}, 2, "evictd: --parallel needs a value (see kubectl evictd --help)\n"},
		{[]string{"top"}, 2, "evictd: no command top: name nodes, rank, why or doctor (see kubectl evictd --help)\n"},
	} {
		if code, stdout, stderr := p.run(test.args...); code != test.code || stdout+stderr != test.want {
			t.Errorf("%q: exit code %d, printed\n%s\nwant %d and\n%s", test.args, code, stdout+stderr, test.code, test.want)
		}
	}
	if code, stdout, _ := p.run("--help"); code != 0 || strings.Count(stdout, "kubectl evictd ") != 4 {
		t.Errorf("--help: exit code %d\n%s", code, stdout)
	}
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
	if err := yaml.Unmarshal([]byte(text), &manifest); err != nil {
		t.Fatal(err)
	}
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
