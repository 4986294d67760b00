package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	for line, want := range map[string]string{
		"":                           "name a command: completion, config, doctor, rank, run, status or version (see evictd --help)",
		"evict":                      `no command "evict": name a command: completion, config, doctor, rank, run, status or version (see evictd --help)`,
		"config":                     "name a command: defaults or validate (see evictd config --help)",
		"config show":                `no command "show": name a command: defaults or validate (see evictd config --help)`,
		"completion tcsh":            `no command "tcsh": name a command: bash, fish, powershell or zsh (see evictd completion --help)`,
		"config validate":            "name one configuration file, not 0: evictd config validate FILE",
		"config validate a b":        "name one configuration file, not 2: evictd config validate FILE",
		"run x":                      `run takes no arguments and got "x" (see evictd run --help)`,
		"run --config":               "flag needs an argument: --config (see evictd run --help)",
		"run --dry-run=maybe":        `--dry-run "maybe": not a bool (see evictd run --help)`,
		"run":                        "--config is missing: name the configuration file\nevictd: --node-name is missing and $NODE_NAME is not set: name the node",
		"run --log-level=loud":       `--log-level "loud": write debug, info, warn or error (see evictd run --help)`,
		"run --log-level=fatal":      `--log-level "fatal": write debug, info, warn or error (see evictd run --help)`,
		"run --log-format=xml":       `--log-format "xml": write json or console (see evictd run --help)`,
		"status -oyaml":              `--output "yaml": write table or json (see evictd status --help)`,
		"version -oyaml":             `--output "yaml": write text or json (see evictd version --help)`,
		"doctor -oyaml":              `--output "yaml": write table or json (see evictd doctor --help)`,
		"doctor":                     "--node-name is missing and $NODE_NAME is not set: name the node",
		"doctor n":                   `doctor takes no arguments and got "n" (see evictd doctor --help)`,
		"doctor --dry-run":           "unknown flag: --dry-run (see evictd doctor --help)",
		"doctor --state-dir":         "flag needs an argument: --state-dir (see evictd doctor --help)",
		"rank --colour":              "unknown flag: --colour (see evictd rank --help)",
		"rank -oxml":                 `--output "xml": write table, wide, json or yaml (see evictd rank --help)`,
		"rank --signal=memory":       `--signal "memory": no such signal; ` + signalNames,
		"rank --signal=memory.stall": `--signal "memory.stall": no pod uses stall time; in a stall pods go in the order of memory.available; ` + signalNames,
		"rank --snapshot s --http-bind-address :1": "--snapshot and --http-bind-address do not go together: no evictd is asked",
		"rank --snapshot s --save x":               "--snapshot and --save do not go together: it is saved already: copy the file",
		"rank --why a/b -o json":                   "--why and --output do not go together: the story is prose; leave --output out",
		"rank --save - -o wide":                    "--save - writes the document to stdout and no ranking: leave --output and --why out, or name a file",
		"rank --why web":                           `--why "web": write NAMESPACE/POD`,
		"rank --why=":                              `--why "": write NAMESPACE/POD`,
		"rank --save=":                             "--save is empty: name a file, or - for stdout",
		"rank --snapshot=":                         "--snapshot is empty: name a file, or - for stdin",
		"rank --config c":                          "--config is for --snapshot: a running evictd ranks by its own configuration",
		"rank --host-root /host":                   "unknown flag: --host-root (see evictd rank --help)",
	} {
		code, stdout, stderr := call(t, strings.Fields(line)...)
		if code != exitUsage || stdout != "" || stderr != "evictd: "+want+"\n" {
			t.Errorf("evictd %s: code %d, stdout %q, stderr %q; want 2, nothing and %q", line, code, stdout, stderr, want)
		}
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
	const noServer = "leads to no server; name the file that kubectl uses, or set another by kubectl config use-context"
	for name, test := range map[string]struct{ content, want string }{
		"empty":           {"", noServer},
		"other kind":      {head, "its kind is not Config of apiVersion v1; name a kubeconfig"},
		"not YAML":        {": [", "name a kubeconfig that can be read"},
		"no context":      {kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n", noServer},
		"another context": {kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncurrent-context: x\n", noServer},
		"another cluster": {
			kubeconfigHead + "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: d}}]\n",
			noServer,
		},
		"no server": {kubeconfigHead + "clusters: [{name: c, cluster: {}}]\ncurrent-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", noServer},
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
