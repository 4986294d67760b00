package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// evictd runs one of evictd's commands and returns what it printed. It must succeed, unless it is doctor, which
// reports findings by its exit code.
func evictd(ctx context.Context, tb testing.TB, args ...string) (stdout, stderr string) {
	tb.Helper()
	var out, errs bytes.Buffer
	run := exec.CommandContext(ctx, evictdtest.Binary(tb), args...)
	run.Stdout, run.Stderr, run.Env = &out, &errs, append(os.Environ(), "POD_NAMESPACE="+evictdtest.AccountName)
	if err := run.Run(); err != nil && args[0] != "doctor" {
		tb.Fatalf("evictd %q: %v: %s", args, err, errs.String())
	}
	return out.String(), errs.String()
}

// examination is `evictd doctor` on the near node with one account.
type examination struct {
	*evictdtest.Account

	command []string
}

// doctor prepares the command with those credentials and settings.
func doctor(a *evictdtest.Account, as *rest.Config, settings string) *examination {
	a.T.Helper()
	dir := a.T.TempDir()
	kubeconfig, file := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "evictd.yaml")
	a.Must(cluster.WriteKubeconfig(kubeconfig, &clientcmdapi.Cluster{
		Server: as.Host, CertificateAuthorityData: as.CAData, CertificateAuthority: as.CAFile,
	}, &clientcmdapi.AuthInfo{Token: as.BearerToken}))
	a.Must(os.WriteFile(file, []byte("apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n"+settings), 0o600))
	return &examination{a, []string{
		"doctor", "--node-name", a.Near, "--kubeconfig", kubeconfig, "--config", file, "--host-root", evictdtest.NewHost(a.T).Root, "-o", "json",
	}}
}

// lines returns the findings by name.
func (e *examination) lines(ctx context.Context) map[string]checks.Result {
	e.T.Helper()
	// No line of the node's files is at issue here, and they lack much: the exit code is 1.
	text, complaints := evictd(ctx, e.T, e.command...)
	var list []checks.Result
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		e.T.Fatalf("%v: %s%s", err, text, complaints)
	}
	byName := map[string]checks.Result{}
	for _, one := range list {
		byName[one.Name] = one
	}
	return byName
}

// says waits until these lines have that state and text: what the API server knows of roles and policies is
// a moment old.
func (e *examination) says(state checks.State, found string, names ...string) {
	e.T.Helper()
	var lines map[string]checks.Result
	e.Until(strings.Join(names, ", ")+": "+string(state)+", "+found, func(ctx context.Context) bool {
		lines = e.lines(ctx)
		return !slices.ContainsFunc(names, func(name string) bool {
			return lines[name].State != state || !strings.Contains(lines[name].Found, found)
		})
	}, func() string { return fmt.Sprintf("%+v", lines) })
}
