package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// TestMain gives evictd the environment of its pod's manifest, the same for all tests: then those that
// start it can run at the same time.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"POD_UID": "uid-self", "POD_NAMESPACE": "evictd", "HOST_IP": "", "NODE_NAME": "",
		"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": "", // as outside a cluster
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	// No kubeconfig of who runs the tests.
	clientcmd.RecommendedHomeFile = "/none/.kube/config"
	if err := os.Unsetenv(clientcmd.RecommendedConfigPathEnvVar); err != nil {
		panic(err)
	}
	// They wait for polls and rate limits, and do not compute; -parallel of the command line comes after.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// In the pod no command needs a flag: what is left out is read from its variable. A document that is ranked again has
// its own configuration.
func TestFlagsAreReadFromTheEnvironment(t *testing.T) {
	address, queries := listening(t)
	t.Setenv("EVICTD_DEBUG_BIND_ADDRESS", address)
	t.Setenv("EVICTD_CONFIG", "/none.yaml")
	t.Setenv("EVICTD_OUTPUT", "") // as one that is not set
	for _, args := range [][]string{{"status"}, {"rank"}, {"rank", "--snapshot", example}} {
		code, stdout, stderr := call(t, args...)
		if code != exitFine || stderr != "" || args[0] == "rank" && stdout != readFile(t, "testdata/rank/table.txt") {
			t.Errorf("%q: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
	if len(*queries) != 2 {
		t.Errorf("asked %q, want two times", *queries)
	}
	t.Setenv("EVICTD_SIGNAL", "nodefs.available")
	if _, stdout, _ := call(t, "rank", "--signal", "memory.available"); stdout != readFile(t, "testdata/rank/table.txt") {
		t.Errorf("a flag does not precede its variable:\n%s", stdout)
	}
}

// The doctor needs none either.
func TestDoctorReadsTheEnvironment(t *testing.T) {
	p := newPatient(t)
	for name, value := range map[string]string{
		"NODE_NAME": "node-1", "EVICTD_HOST_ROOT": p.root, "EVICTD_CONFIG": p.config, "EVICTD_STATE_DIR": p.stateDir,
		"EVICTD_KUBECONFIG": kubeconfigFor(t, p.api.url),
	} {
		t.Setenv(name, value)
	}
	if code, stdout, stderr := call(t, "doctor"); code != exitFine || !strings.HasPrefix(stdout, "CHECK ") || stderr != "" {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

// The kubeconfig that is named comes first, then the pod's credentials, then the kubeconfig that kubectl would use.
func TestCredentials(t *testing.T) {
	usual := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = usual })
	pod := func() (*rest.Config, error) { return &rest.Config{Host: "https://pod"}, nil }
	noPod := func() (*rest.Config, error) { return nil, rest.ErrNotInCluster }
	named, listed, home := kubeconfigFor(t, "https://named"), kubeconfigFor(t, "https://listed"), kubeconfigFor(t, "https://home")
	part := writeFile(t, "part", kubeconfigHead+"clusters: [{name: c, cluster: {server: 'https://part'}}]\n")
	for name, test := range map[string]struct {
		named, listed, home string
		pod                 func() (*rest.Config, error)
		host, fault         string
	}{
		"by the flag":              {named, listed, home, pod, "https://named", ""},
		"by $KUBECONFIG":           {"", listed, home, pod, "https://listed", ""},
		"by the first that has it": {"", "/none:" + part + ":" + listed, home, pod, "https://part", ""},
		"of the pod":               {"", "", home, pod, "https://pod", ""},
		"the usual":                {"", "", home, noPod, "https://home", ""},
		"a flag that is wrong":     {"/none", listed, home, pod, "", "/none"},
		"a list of none":           {"", "/none:/nor", home, pod, "", "Config not found: /none, /nor"},
		"none":                     {"", "", "/none", noPod, "", "--kubeconfig and $KUBECONFIG name no file, there is no ~/.kube/config, and no service account of a pod"},
	} {
		t.Setenv(clientcmd.RecommendedConfigPathEnvVar, test.listed)
		clientcmd.RecommendedHomeFile = test.home
		c, _, err := credentials(test.named, test.pod)
		switch {
		case test.fault == "" && (err != nil || c.Host != test.host):
			t.Errorf("%s: %+v, %v; want %s", name, c, err, test.host)
		case test.fault != "" && (err == nil || !strings.Contains(err.Error(), test.fault)):
			t.Errorf("%s: %v, want %q", name, err, test.fault)
		}
	}
}
