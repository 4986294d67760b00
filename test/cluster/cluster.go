package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
)

const (
	readyTimeout = 2 * time.Minute  // for one component on a machine that is busy compiling
	stopGrace    = 20 * time.Second // for one component to end by itself
)

// ErrRunning says that a directory holds a running cluster.
var ErrRunning = errors.New("a cluster runs here already; stop it first")

// Cluster is a running cluster. Several goroutines may use its methods, and several
// programs, each with its own from [Attach]. Only one of them at a time may start processes
// or stop the cluster.
type Cluster struct {
	dir  string
	log  io.Writer
	rest *rest.Config
	wait time.Duration // for one component to be ready
	mu   sync.Mutex    // one change of the state at a time
}

// ProcessStatus is one line of [Cluster.Status].
type ProcessStatus struct {
	// Name is what [Cluster.StopProcess] takes.
	Name string
	// PID is the number of the process, or 0 when it never started.
	PID int
	// Running says whether this process runs, and not another one with its number.
	Running bool
}

// Start runs a cluster with the options, and returns when it is ready: all components are,
// the default service account exists, and with a node, the node is Ready. On failure it
// stops what it had started, and the error ends with the last lines of the log concerned.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	if err = checkBuilt(options.BinDir, options.Node); err != nil {
		return nil, err
	}
	c, err := claim(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := c.start(ctx, options); err != nil {
		// The caller's context may have ended the start.
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Attach finds a cluster that [Start] left in a directory, whatever part of it still runs,
// so that it can be used, repaired or stopped.
func Attach(dir string) (*Cluster, error) {
	dir, err := realPath(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving folder %s: %w", dir, err)
	}
	if _, err = readState(dir); err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, log: io.Discard, wait: readyTimeout}
	// A start that crashed early left no kubeconfig; it can still be stopped.
	if !isFile(c.Kubeconfig()) {
		return c, nil
	}
	c.rest, err = loadKubeconfig(c.Kubeconfig())
	return c, err
}

// Dir is the state folder.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// AuditLog is the path of the API server's audit log: one JSON object per line for every
// completed request, evictions with their body, unless the options say otherwise.
func (c *Cluster) AuditLog() string { return c.path("logs", "audit.log") }

// CA is the path of the certificate that signs those of every server of the cluster, the
// kubelet included.
func (c *Cluster) CA() string { return c.path("pki", "ca.crt") }

// LogFile is the path of a process's log.
func (c *Cluster) LogFile(name string) string { return c.path("logs", name+".log") }

// RESTConfig is the administrator's client configuration, without a rate limit. The caller
// may change it. It is nil when the cluster failed before it was written.
func (c *Cluster) RESTConfig() *rest.Config {
	if c.rest == nil {
		return nil
	}
	return rest.CopyConfig(c.rest)
}

// Status lists the processes in the order of their start.
func (c *Cluster) Status() ([]ProcessStatus, error) {
	read, err := readState(c.dir)
	if err != nil {
		return nil, err
	}
	list := make([]ProcessStatus, 0, len(read.Components))
	for _, each := range read.Components {
		list = append(list, ProcessStatus{Name: each.Name, PID: each.Process.PID, Running: each.Process.Running()})
	}
	return list, nil
}

// StopProcess ends one process by SIGTERM, after a grace period by SIGKILL, and returns when
// it has ended. The containers of a node outlive both containerd and the kubelet.
func (c *Cluster) StopProcess(ctx context.Context, name string) error {
	found, _, err := c.find(name)
	if err != nil {
		return err
	}
	if err := found.Process.stop(ctx, stopGrace); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

// Signal sends a signal to one process: SIGKILL for a crash, SIGSTOP and SIGCONT to suspend
// and resume it. It returns no error when the process does not run.
func (c *Cluster) Signal(name string, signal syscall.Signal) error {
	found, _, err := c.find(name)
	if err != nil {
		return err
	}
	return found.Process.signal(signal)
}

// StartProcess restarts a process unchanged, and returns when it is ready. It does nothing
// for one that runs.
func (c *Cluster) StartProcess(ctx context.Context, name string) error {
	found, read, err := c.find(name)
	if err != nil {
		return err
	}
	if !found.Process.Running() {
		if err := c.launch(read, found); err != nil {
			return err
		}
	}
	if err := c.awaitReady(ctx, read, *found); err != nil {
		return err
	}
	if name == kubeletName {
		return c.join(ctx, read.NodeName)
	}
	return nil
}

func (c *Cluster) find(name string) (*component, *state, error) {
	read, err := readState(c.dir)
	if err != nil {
		return nil, nil, err
	}
	found, err := read.component(name)
	return found, read, err
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *Cluster) start(ctx context.Context, options Options) error {
	for _, name := range []string{"pki", "config", "etcd", "logs"} {
		if err := os.Mkdir(c.path(name), 0o700); err != nil {
			return fmt.Errorf("making folder %s: %w", name, err)
		}
	}
	at, err := chooseEndpoints(ctx, options.Node)
	if err != nil {
		return err
	}
	if err := c.writeIdentities(at, options.NodeName); err != nil {
		return err
	}
	if options.Node {
		if err := c.prepareNode(); err != nil {
			return err
		}
	}
	if err := c.startControlPlane(ctx, at, options); err != nil {
		return err
	}
	if options.Node {
		if err := c.startNode(ctx, at, options); err != nil {
			return err
		}
	}
	return c.update(func(s *state) { s.Starter = Process{} })
}

// update changes the state on disk.
func (c *Cluster) update(change func(*state)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	current, err := readState(c.dir)
	if err != nil {
		return err
	}
	change(current)
	return current.write(c.dir, false)
}
