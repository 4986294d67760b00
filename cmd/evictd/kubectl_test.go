package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"
)

// callAs runs the program as main does when its file has that name.
func callAs(t *testing.T, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := commandFor(name, args, func(klog.Logger) {})
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	code = run(t.Context(), cmd)
	return code, out.String(), errs.String()
}

// The same program is evictd, the kubectl plugin or its completion, by the name of its file.
func TestNameOfTheFileChoosesTheCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"/evictd", []string{"version"}, "evictd "},
		{"/usr/local/bin/kubectl-evictd", []string{"--help"}, "kubectl evictd [command]"},
		{"kubectl_complete-evictd", []string{"wh"}, "why\t"},
		{"/opt/other", []string{"version"}, "evictd "},
	} {
		if code, stdout, stderr := callAs(t, test.name, test.args...); code != exitFine || !strings.Contains(stdout, test.want) {
			t.Errorf("%s %q: code %d, stdout %q, stderr %q; want %q", test.name, test.args, code, stdout, stderr, test.want)
		}
	}
}

// Each wrong call of the plugin ends with exit code 2 and one line with the fault and its fix.
func TestWrongCallsOfThePlugin(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"name a command: doctor, nodes, rank or why (see kubectl evictd --help)":                   nil,
		`no command "top": name a command: doctor, nodes, rank or why (see kubectl evictd --help)`: {"top"},
		"unknown flag: --colour (see kubectl evictd nodes --help)":                                 {"nodes", "--colour"},
		`nodes takes no arguments and got "x" (see kubectl evictd nodes --help)`:                   {"nodes", "x"},
		"--parallel 0: write 1 or more":                                                            {"nodes", "--parallel=0"},
		"--timeout 0s: write a duration above 0, such as 10s":                                      {"nodes", "--timeout=0"},
		"name one node, not 0 (see kubectl evictd rank --help)":                                    {"rank"},
		"name one node, not 2 (see kubectl evictd doctor --help)":                                  {"doctor", "a", "b"},
		"name one pod, not 0 (see kubectl evictd why --help)":                                      {"why"},
		`pod "shop/": write POD or NAMESPACE/POD`:                                                  {"why", "shop/"},
		`pod "a/b/c": write POD or NAMESPACE/POD`:                                                  {"why", "a/b/c"},
		`pod "shop/web" and --namespace other name two namespaces: leave one out`:                  {"why", "shop/web", "-n", "other"},
		"the pod's name is empty: write POD or NAMESPACE/POD":                                      {"why", ""},
	} {
		code, stdout, stderr := callAs(t, pluginFile, args...)
		if code != exitUsage || stdout != "" || stderr != "evictd: "+want+"\n" {
			t.Errorf("%q: code %d, stdout %q, stderr %q; want 2 and %q", args, code, stdout, stderr, want)
		}
	}
}

// The template of the Krew manifest names the program, for the architectures of the image, and
// `make krew` fills in every gap.
func TestKrewTemplate(t *testing.T) {
	t.Parallel()
	text := readDoc(t, "deploy/krew/evictd.yaml")
	var manifest struct {
		Kind     string
		Metadata struct{ Name string }
		Spec     struct {
			Platforms []struct {
				Selector struct{ MatchLabels map[string]string }
				URI, Bin string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Kind != "Plugin" || "kubectl-"+manifest.Metadata.Name != pluginFile {
		t.Errorf("it is %s %s", manifest.Kind, manifest.Metadata.Name)
	}
	var architectures []string
	for _, p := range manifest.Spec.Platforms {
		arch := p.Selector.MatchLabels["arch"]
		architectures = append(architectures, arch)
		if p.Bin != pluginFile || p.Selector.MatchLabels["os"] != "linux" || !strings.HasSuffix(p.URI, "/"+pluginFile+"-linux-"+arch+".tar.gz") {
			t.Errorf("%s: %+v", arch, p)
		}
	}
	if diff := cmp.Diff([]string{"amd64", "arm64"}, architectures); diff != "" {
		t.Errorf("architectures (-want +got):\n%s", diff)
	}
	filled := readDoc(t, "Makefile")
	for _, gap := range regexp.MustCompile(`"[^"]*(@\w+@)[^"]*"`).FindAllStringSubmatch(text, -1) {
		if name := strings.NewReplacer("amd64", "$$arch", "arm64", "$$arch").Replace(gap[1]); !strings.Contains(filled, "s|"+name+"|") {
			t.Errorf("make krew does not fill in %s", gap[1])
		}
	}
}

// Without a usable kubeconfig the plugin says so in one line.
func TestKubeconfigsOfThePlugin(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	context := writeFile(t, "kubeconfig", kubeconfigHead+"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: x, context: {cluster: c}}]\ncurrent-context: x\n")
	t.Setenv("KUBECONFIG", missing)
	for want, args := range map[string][]string{
		"looking for a cluster: there is no kubeconfig; name one by --kubeconfig or $KUBECONFIG": {"nodes"},
		"reading the kubeconfig: ":   {"nodes", "--kubeconfig", missing},
		`context "y" does not exist`: {"rank", "n", "--kubeconfig", context, "--context", "y"},
		"looking for evictd's pods: no answer from the API server at https://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused": {"nodes", "--kubeconfig", context},
	} {
		code, _, stderr := callAs(t, pluginFile, args...)
		if code != exitFault || !strings.HasPrefix(stderr, "evictd: ") || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: code %d, stderr %q; want 1 and one line with %q", args, code, stderr, want)
		}
	}
}
