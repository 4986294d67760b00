package evictdtest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/eventually"
)

const (
	// Thresholds are the thresholds of these tests.
	Thresholds = "evictionHard: {memory.available: 500Mi}\n"
	// Lenient are settings by which every pod may be evicted, and by which evictd decides often: what
	// does not happen is shown by counted decisions.
	Lenient = "protect: {barePods: false, pinnedPods: false, withinRequests: never}\n" +
		"limits: {evictionsPerMinute: 60, perOwnerPerHour: 60}\nsampling: {maxInterval: 100ms}\n"
)

// Binary returns the path of evictd, built once for all tests.
func Binary(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	must(tb, err)
	return path
}

var built = sync.OnceValues(func() (string, error) { //nolint:gochecknoglobals // once for the program
	path := filepath.Join(shared.Dir(), "evictd")
	return path, Build(path)
})

// Build builds evictd into a file, from a folder two below the repository, with the race detector where
// EVICTD_RACE is set.
func Build(path string) error {
	arguments, cgo := []string{"build", "-C", "../..", "-trimpath", "-o", path}, "0"
	if os.Getenv("EVICTD_RACE") != "" {
		arguments, cgo = append(arguments, "-race"), "1"
	}
	command := exec.Command("go", append(arguments, "./cmd/evictd")...) //nolint:gosec,noctx // it is the test's own
	command.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if text, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building evictd: %w: %s", err, text)
	}
	return nil
}

// Options say how evictd runs.
type Options struct {
	Host *Host
	Node string
	// Namespace is its own; "" is that of the shipped manifest.
	Namespace string
	// Server is the address of the API server, CA its authority, TokenFile evictd's credentials.
	Server    string
	CA        []byte
	TokenFile string
	// Settings are those of its configuration.
	Settings string
	// StateDir is for what outlives it; "" is one of its own, with an empty state.
	StateDir string
}

// Evictd is a running evictd of a test.
type Evictd struct {
	*Process

	t      testing.TB
	killed bool
}

// Start runs evictd. It ends with the test, and must end without an error.
func Start(tb testing.TB, o Options) *Evictd {
	tb.Helper()
	address, err := cluster.FreeAddress(tb.Context())
	must(tb, err)
	e := &Evictd{t: tb}
	command, err := o.Command(Binary(tb), tb.TempDir(), address)
	if err == nil {
		e.Process, err = Run(command, address)
	}
	must(tb, err)
	tb.Cleanup(e.Stop)
	return e
}

// Command returns the command that runs evictd with these options and serves its pages at an address. It
// writes evictd's files into an empty folder.
func (o Options) Command(binary, dir, address string) (*exec.Cmd, error) {
	kubeconfig, config := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "evictd.yaml")
	err := cluster.WriteKubeconfig(kubeconfig, &clientcmdapi.Cluster{Server: "https://" + o.Server, CertificateAuthorityData: o.CA},
		&clientcmdapi.AuthInfo{TokenFile: o.TokenFile})
	if err == nil {
		err = os.WriteFile(config, configuration(o.Settings), 0o600)
	}
	if err == nil && o.StateDir == "" {
		o.StateDir, err = EmptyState(dir, o.Host.Root)
	}
	if err != nil {
		return nil, fmt.Errorf("writing evictd's files: %w", err)
	}
	command := exec.Command(binary, //nolint:gosec,noctx // built above; what starts it ends it
		"run", "--config="+config, "--node-name="+o.Node, "--kubeconfig="+kubeconfig,
		"--host-root="+o.Host.Root, "--http-bind-address="+address, "--debug-bind-address="+address, "--state-dir="+o.StateDir,
		"--record="+filepath.Join(dir, "record"))
	command.Env = append(os.Environ(), "POD_NAMESPACE="+cmp.Or(o.Namespace, AccountName))
	return command, nil
}

// configuration returns a configuration file.
func configuration(settings string) []byte {
	if !strings.Contains(settings, "dryRun:") {
		settings += "\ndryRun: false\n" // without this line the default evicts no pod
	}
	return []byte("apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\n" + settings)
}

// Kill is [Process.Kill], after which [Evictd.Stop] finds no fault.
func (e *Evictd) Kill() {
	e.killed = true
	e.Process.Kill()
}

// Stop ends evictd as the kubelet does.
func (e *Evictd) Stop() {
	if err := e.End(); err != nil && !e.killed {
		e.t.Error(err)
	}
	if e.t.Failed() {
		e.t.Logf("evictd's log:\n%s", e.Log)
	}
}

// Decisions returns evictd's document with the last decisions, for a test that fails.
func (e *Evictd) Decisions() string {
	ctx, cancel := eventually.Cleanup()
	defer cancel()
	_, page := e.Get(ctx, "/debug/status")
	return "evictd's status:\n" + page
}

// EmptyState writes the state of an evictd that has evicted nothing, for the host whose files are
// below root, and returns its directory. A start that knows nothing of the time before waits first.
func EmptyState(dir, root string) (string, error) {
	boot, err := state.BootID(root)
	if err != nil {
		return "", err
	}
	text, err := state.Encode(struct{}{}, boot)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return dir, os.WriteFile(filepath.Join(dir, state.FileName), text, 0o600)
}
