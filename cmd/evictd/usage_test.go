package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
)

// call runs evictd as main does.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	root := newRootCommand(func(klog.Logger) {})
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	code = run(t.Context(), root)
	return code, out.String(), errs.String()
}

// signalNames is the end of each sentence about --signal.
const signalNames = "name one of memory.available, kubeletMemory.available, allocatableMemory.available, nodefs.available, nodefs.inodesFree, " +
	"imagefs.available, imagefs.inodesFree, containerfs.available, containerfs.inodesFree, pid.available"

// Each wrong call ends with exit code 2 and prints, for each mistake, one line with the
// fault and its fix.
func TestWrongCallsSayWhatToDo(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	where := []string{"--config", "c", "--node-name", "n"}
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"no command":           {nil, []string{"name a command: completion, config, doctor, rank, run, status or version (see evictd --help)"}},
		"no such command":      {[]string{"evict"}, []string{`no command "evict": name a command: completion, config, doctor, rank, run, status or version (see evictd --help)`}},
		"no such config":       {[]string{"config", "show"}, []string{`no command "show": name a command: defaults or validate (see evictd config --help)`}},
		"no such shell":        {[]string{"completion", "tcsh"}, []string{"name one shell: bash, zsh or fish (see evictd completion --help)"}},
		"validate nothing":     {[]string{"config", "validate"}, []string{"name one configuration file, not 0: evictd config validate FILE"}},
		"validate two":         {[]string{"config", "validate", "a", "b"}, []string{"name one configuration file, not 2: evictd config validate FILE"}},
		"arguments":            {[]string{"run", "x"}, []string{`run takes no arguments and got "x" (see evictd run --help)`}},
		"unknown flag":         {[]string{"rank", "--colour"}, []string{"unknown flag: --colour (see evictd rank --help)"}},
		"flag without a value": {[]string{"run", "--config"}, []string{"flag needs an argument: --config (see evictd run --help)"}},
		"flag of another type": {[]string{"run", "--dry-run=maybe"}, []string{`--dry-run "maybe": not a bool (see evictd run --help)`}},
		"two flags missing": {[]string{"run"}, []string{
			"--config is missing: name the configuration file",
			"--node-name is missing and $NODE_NAME is not set: name the node",
		}},
		"log level":     {append([]string{"run", "--log-level=loud"}, where...), []string{`--log-level "loud": write debug, info, warn or error`}},
		"mute level":    {append([]string{"run", "--log-level=fatal"}, where...), []string{`--log-level "fatal": write debug, info, warn or error`}},
		"log format":    {append([]string{"run", "--log-format=xml"}, where...), []string{`--log-format "xml": write json or console`}},
		"status output": {[]string{"status", "-oyaml"}, []string{`--output "yaml": write table or json`}},
		"output":        {[]string{"rank", "-oxml"}, []string{`--output "xml": write table, wide, json or yaml`}},
		"signal":        {[]string{"rank", "--signal=memory"}, []string{`--signal "memory": no such signal; ` + signalNames}},
		"stall signal":  {[]string{"rank", "--signal=memory.stall"}, []string{`--signal "memory.stall": no pod uses stall time; in a stall pods go in the order of memory.available; ` + signalNames}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, test.args...)
			want := ""
			for _, line := range test.want {
				want += "evictd: " + line + "\n"
			}
			if diff := cmp.Diff(want, stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
			if code != exitUsage || stdout != "" {
				t.Errorf("code %d, stdout %q; want 2 and nothing", code, stdout)
			}
		})
	}
}

const kubeconfigHead = "apiVersion: v1\nkind: Config\n"

// writeFile writes a file into the test's own directory.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnusableKubeconfigs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ content, want string }{
		"empty":      {"", "it names no cluster; name the file that kubectl uses"},
		"other kind": {head, "its kind is not Config of apiVersion v1; name a kubeconfig"},
		"not YAML":   {": [", "name a kubeconfig that can be read"},
		"no context": {
			kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n",
			"it has no current-context; set one, for example by kubectl config use-context",
		},
		"another context": {
			kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncurrent-context: x\n",
			`its current-context "x" is not among its contexts; set one that is, for example by kubectl config use-context`,
		},
		"another cluster": {
			kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: d}}]\n",
			`its context "x" leads to no server; give it the name of a cluster that has one`,
		},
		"no server": {
			kubeconfigHead + "clusters: [{name: c, cluster: {}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
			`its context "x" leads to no server; give it the name of a cluster that has one`,
		},
		"no certificate": {
			kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1', certificate-authority: none.pem}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
			"no such file or directory; fix it so that kubectl can use it",
		},
		"no URL": {
			kubeconfigHead + "clusters: [{name: c, cluster: {server: 'not a URL'}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
			"invalid character",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeFile(t, "kubeconfig", test.content)
			code, _, stderr := call(t, "run", "--config", configFile(t, head), "--node-name", "n", "--kubeconfig", path)
			if code != exitFault || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "evictd: ") ||
				!strings.Contains(stderr, "--kubeconfig "+path+": ") || !strings.Contains(stderr, test.want) {
				t.Errorf("code %d, stderr %q; want one line about --kubeconfig %s that holds %q", code, stderr, path, test.want)
			}
			if strings.Contains(stderr, "KUBERNETES_") {
				t.Errorf("asks for a variable that evictd does not read: %s", stderr)
			}
		})
	}
}

func TestCredentialsOutsideACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	code, _, stderr := call(t, "run", "--config", configFile(t, head), "--node-name", "n")
	want := "evictd: looking for credentials: evictd does not run in a pod here; name a --kubeconfig\n"
	if code != exitFault || stderr != want {
		t.Errorf("code %d, stderr %q; want 1 and %q", code, stderr, want)
	}
}
