package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/moby/sys/mountinfo"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	readyTimeout = 2 * time.Minute  // for one component on a machine that is busy compiling
	stopGrace    = 20 * time.Second // for one component to end by itself
	stopTimeout  = 2 * time.Minute
)

// Cluster is a running cluster. It lives as long as the program that started it: the kernel ends its processes
// with the program. Several goroutines may use its methods. Only one at a time may start or stop processes.
type Cluster struct {
	dir        string
	made       bool // the directory was made by the start
	options    Options
	wait       time.Duration // for one component to be ready
	network    string        // the first three numbers of the addresses of its services
	rest       *rest.Config
	client     kubernetes.Interface
	components []*component // in the order of their start
	starter    *thread      // of the processes outside of the node
	node       *machine     // nil without a node
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
	c := &Cluster{dir: options.Dir, options: options, wait: Patiently(readyTimeout)}
	if c.made, err = emptyFolder(options.Dir); err != nil {
		return nil, err
	}
	if c.starter, err = newThread(func() error { return nil }); err != nil {
		return nil, err
	}
	if err := c.start(ctx); err != nil {
		// The caller's context may have ended the start.
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// With runs what needs a control plane, with that and a temporary directory, and removes both. The binaries are
// those of $EVICTD_CLUSTER_BIN.
func With(ctx context.Context, name string, run func(c *Cluster, dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "evictd-"+name+"-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c, err := Start(ctx, Options{Dir: filepath.Join(dir, "cluster"), BinDir: os.Getenv("EVICTD_CLUSTER_BIN"), Log: os.Stdout})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	return run(c, dir)
}

// emptyFolder creates the directory, and returns whether it did. Everything in it is deleted when the cluster stops:
// one that is there must be empty.
func emptyFolder(dir string) (made bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return true, os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return false, fmt.Errorf("looking into the folder: %w", err)
	}
	if len(entries) > 0 {
		return false, fmt.Errorf("starting in %s: the folder is not empty: it holds %s", dir, entries[0].Name())
	}
	return false, nil
}

const logsFolder = "logs"

// Dir is the cluster's directory.
func (c *Cluster) Dir() string { return c.dir }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// AuditLog is the path of the API server's audit log: one JSON object per line for every
// completed request, evictions with their body, unless the options say otherwise.
func (c *Cluster) AuditLog() string { return c.path(logsFolder, "audit.log") }

// CA is the path of the certificate that signs those of every server of the cluster, the
// kubelet included.
func (c *Cluster) CA() string { return c.path("pki", "ca.crt") }

// LogFile is the path of a process's log.
func (c *Cluster) LogFile(name string) string { return c.path(logsFolder, name+".log") }

// RESTConfig is the administrator's client configuration, without a rate limit. The caller
// may change it.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.rest) }

// Client is the administrator's client, without a rate limit.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// PID returns the number of a process, or an error where it does not run.
func (c *Cluster) PID(name string) (int, error) {
	found, err := c.find(name)
	if err != nil {
		return 0, err
	}
	process := found.process.Load()
	if !process.running() {
		return 0, fmt.Errorf("looking for %s: it does not run", name)
	}
	return process.Pid, nil
}

// StopProcess ends one process by SIGTERM, after a grace period by SIGKILL, and returns when
// it has ended. The containers of a node outlive both containerd and the kubelet.
func (c *Cluster) StopProcess(ctx context.Context, name string) error {
	found, err := c.find(name)
	if err != nil {
		return err
	}
	if err := found.process.Load().stop(ctx, stopGrace); err != nil {
		return fmt.Errorf("stopping %s: %w", name, err)
	}
	return nil
}

// Signal sends a signal to one process: SIGKILL for a crash, SIGSTOP and SIGCONT to suspend
// and resume it. It returns no error when the process does not run.
func (c *Cluster) Signal(name string, signal syscall.Signal) error {
	found, err := c.find(name)
	if err != nil {
		return err
	}
	return found.process.Load().signal(signal)
}

// StartProcess restarts a process unchanged, and returns when it is ready. It does nothing
// for one that runs.
func (c *Cluster) StartProcess(ctx context.Context, name string) error {
	found, err := c.find(name)
	if err != nil {
		return err
	}
	if !found.process.Load().running() {
		if err := c.launch(found); err != nil {
			return err
		}
	}
	if err := c.awaitReady(ctx, found); err != nil {
		return err
	}
	if name == kubeletName {
		return c.join(ctx)
	}
	return nil
}

func (c *Cluster) path(elements ...string) string {
	return filepath.Join(append([]string{c.dir}, elements...)...)
}

func (c *Cluster) start(ctx context.Context) error {
	for _, name := range []string{"pki", "config", "etcd", logsFolder} {
		if err := os.Mkdir(c.path(name), 0o700); err != nil {
			return fmt.Errorf("making folder %s: %w", name, err)
		}
	}
	var err error
	if c.network, err = freeNetwork(ctx, c.ports()); err != nil {
		return err
	}
	if err = c.writeIdentities(); err != nil {
		return err
	}
	if c.options.Node {
		if c.node, err = takeMachine(ctx, c.options); err != nil {
			return err
		}
	}
	if err := c.startControlPlane(ctx, c.options); err != nil || !c.options.Node {
		return err
	}
	return c.startNode(ctx)
}

// Stop ends every process of the cluster, its containers included, removes its mounts,
// cgroups and files, and restores the kernel's settings. It may be called again: after an error it continues
// where it failed, and once everything is removed it does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	// The kernel ends the processes with their threads: what they could still save is deleted next.
	threads := []**thread{&c.starter}
	if c.node != nil {
		threads = append(threads, &c.node.inside)
	}
	for _, each := range threads {
		if err := (*each).end(ctx); err != nil {
			return fmt.Errorf("ending a thread of the processes: %w", err)
		}
		*each = nil
	}
	err := poll(ctx, func(context.Context) (bool, error) {
		return !slices.ContainsFunc(c.components, func(one *component) bool { return one.process.Load().running() }), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the processes to end: %w", err)
	}
	if err := c.node.leave(ctx, c.options); err != nil {
		return err
	}
	c.node = nil
	return c.removeFiles()
}

// removeFiles deletes the directory's contents, which the start found empty.
func (c *Cluster) removeFiles() error {
	// The mounts have gone with the node's namespace. If there were one, deleting the directory would delete the
	// mounted files.
	below, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !strings.HasPrefix(m.Mountpoint, c.dir+"/"), false })
	if err != nil {
		return fmt.Errorf("reading the mounts: %w", err)
	}
	if len(below) > 0 {
		return fmt.Errorf("deleting %s: %s is a mount", c.dir, below[0].Mountpoint)
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("looking into the folder: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(c.path(entry.Name())); err != nil {
			return fmt.Errorf("deleting %s: %w", entry.Name(), err)
		}
	}
	if c.made {
		return os.RemoveAll(c.dir)
	}
	return nil
}
