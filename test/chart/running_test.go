package chart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/test/cluster"
)

// running is a process of `evictd run`.
type running struct {
	t       *testing.T
	address string

	mu  sync.Mutex
	log bytes.Buffer
}

// Write adds to the log.
func (r *running) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(p)
}

func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// run runs evictd for a node with these credentials until the test ends, as a pod of that namespace.
func run(t *testing.T, as *rest.Config, node, in string) *running {
	t.Helper()
	root := t.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: as.Host, CertificateAuthorityData: as.CAData, CertificateAuthority: as.CAFile}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: as.BearerToken}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	kubeconfig := filepath.Join(root, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	const groups = "sys/fs/cgroup/"
	for path, text := range map[string]string{
		"evictd.yaml":                               "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\nevictionHard: {memory.available: 1Mi}\n",
		"proc/meminfo":                              "MemTotal: 8388608 kB\nMemFree: 8388608 kB\nMemAvailable: 8388608 kB\n",
		groups + "cgroup.controllers":               "cpu memory pids\n",
		groups + "kubepods.slice/memory.current":    "0\n",
		groups + "kubepods.slice/memory.stat":       "anon 0\nfile 0\nshmem 0\ninactive_file 0\n",
		groups + "kubepods.slice/memory.max":        "max\n",
		groups + "kubepods.slice/pids.current":      "1\n",
		"var/lib/kubelet/pods/of-the-node/volume-1": "",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address, err := cluster.FreeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, address: address}
	r.start(exec.Command(built(t), "run", "--config="+filepath.Join(root, "evictd.yaml"), "--node-name="+node,
		"--kubeconfig="+kubeconfig, "--host-root="+root, "--http-bind-address="+address), in)
	return r
}

func (r *running) start(command *exec.Cmd, in string) {
	r.t.Helper()
	command.Stderr, command.Env = r, append(os.Environ(), "POD_NAMESPACE="+in)
	if err := command.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil {
			r.t.Errorf("evictd ended with a fault: %v", err)
		}
		if r.t.Failed() {
			r.t.Logf("evictd's log:\n%s", r.said())
		}
	})
}

// confined returns evictd's metric of that name, and whether there is one.
func (r *running) confined(ctx context.Context) (value string, known bool) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/metrics", r.address), http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", false
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return "", false
	}
	_, after, known := strings.Cut(string(page), "\nevictd_confined ")
	value, _, _ = strings.Cut(after, "\n")
	return value, known
}
