package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// binDirVariable names the directory of the binaries. Without it only the tests run that start no
// control plane.
const binDirVariable = "EVICTD_CLUSTER_BIN"

// builtBinaries returns the folder of the binaries, or skips the test and says why.
func builtBinaries(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(binDirVariable)
	if dir == "" {
		t.Skipf("%s does not name the folder of a built control plane: make cluster-build", binDirVariable)
	}
	if err := checkBuilt(dir, false); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestControlPlane(t *testing.T) {
	options := Options{Dir: filepath.Join(t.TempDir(), "cluster"), BinDir: builtBinaries(t)}
	options.Log = t.Output()
	c, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after a failure
		if failed := c.Stop(context.WithoutCancel(t.Context())); failed != nil {
			t.Error(failed)
		}
	})
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err = Start(t.Context(), options); err == nil || !strings.Contains(err.Error(), options.Dir) {
		t.Errorf("starting a second one in its folder: %v", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err = client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil || !strings.HasPrefix(version.GitVersion, "v1.") {
		t.Errorf("version %v, error %v", version, err)
	}
	if log := string(read(t, c.AuditLog())); !strings.Contains(log, `"name":"kept"`) {
		t.Error("the audit log lacks the request")
	}
	for range 2 {
		if err := c.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, each := range c.components {
		if each.process.Load().running() {
			t.Errorf("%s still runs", each.name)
		}
	}
	if _, err := os.Stat(options.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder is left: %v", err)
	}
}

func TestFailedStartLeavesNothing(t *testing.T) {
	bin, broken := builtBinaries(t), t.TempDir()
	for _, name := range binaries(false) {
		if err := os.Symlink(filepath.Join(bin, name), filepath.Join(broken, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := filepath.Join(broken, "kube-apiserver")
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	write(t, script, "#!/bin/sh\necho out of order\nexit 3\n", 0o700)

	dir := filepath.Join(t.TempDir(), "cluster")
	_, err := Start(t.Context(), Options{Dir: dir, BinDir: broken, Log: t.Output()})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver") || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("error %v names neither the component nor the end of its log", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the state folder is left: %v", err)
	}
}

func TestStartWithoutBinaries(t *testing.T) {
	_, err := Start(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "cluster"), BinDir: t.TempDir()})
	if !errors.Is(err, ErrNotBuilt) {
		t.Errorf("error %v", err)
	}
}
