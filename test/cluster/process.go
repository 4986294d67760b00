package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// component is one process of the cluster, with all that its restart needs.
type component struct {
	name      string
	arguments []string
	probe     func(context.Context) error // returns none once it is ready
	program   string                      // its path; empty is that of its name in BinDir
	inNode    bool                        // lives in the node's namespaces
	process   atomic.Pointer[process]     // nil before its first start
}

// process is a child of this program.
type process struct {
	*os.Process
	ended chan struct{} // closed when it has ended and left no zombie
}

// running reports whether the process has not ended; nil has.
func (p *process) running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal. It returns no error when the process has ended: its number is never that of another
// one, because it is released only when the end was seen.
func (p *process) signal(signal syscall.Signal) error {
	if !p.running() {
		return nil
	}
	if err := p.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signalling process %d: %w", p.Pid, err)
	}
	return nil
}

// stop sends SIGTERM, after grace SIGKILL, and waits until the process has ended.
func (p *process) stop(ctx context.Context, grace time.Duration) error {
	// A stopped process receives the first signal only once it continues.
	if err := errors.Join(p.signal(syscall.SIGTERM), p.signal(syscall.SIGCONT)); err != nil {
		return err
	}
	gone := func(context.Context) (bool, error) { return !p.running(), nil }
	if pollFor(ctx, grace, gone) == nil {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := poll(ctx, gone); err != nil {
		return fmt.Errorf("waiting for process %d to end: %w", p.Pid, err)
	}
	return nil
}

// launch starts a command in its own session, without input and with its output appended to logFile. The
// kernel sends it the signal when the thread that calls this ends.
func launch(path string, arguments, environment []string, logFile string, atEnd syscall.Signal) (*process, error) {
	output, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // a path below the caller's folder
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	defer output.Close() //nolint:errcheck // the child has its own
	// Not CommandContext: the child should outlive the caller's context.
	command := exec.Command(path, arguments...) //nolint:gosec,noctx // starting what build.sh built is the purpose; see above
	command.Dir = "/"
	command.Env = environment
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: atEnd}
	if err = command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", filepath.Base(path), err)
	}
	started := &process{Process: command.Process, ended: make(chan struct{})}
	go func() {
		_ = command.Wait() // its log says why it ended
		close(started.ended)
	}()
	return started, nil
}

// thread is one thread of this program that runs what it is given. Its children end with it, and are born in its
// mount namespace.
type thread struct {
	id    int
	calls chan func()
}

// newThread starts a thread, which runs prepare first.
func newThread(prepare func() error) (*thread, error) {
	t, ready := &thread{calls: make(chan func())}, make(chan error, 1)
	go t.run(prepare, ready)
	return t, <-ready
}

func (t *thread) run(prepare func() error, ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread cannot end before the program does, and /proc/self shows its
		// namespace. Held here, it cannot be picked again.
		defer runtime.UnlockOSThread()
		next := make(chan error, 1)
		go t.run(prepare, next)
		ready <- <-next
		return
	}
	t.id = unix.Gettid()
	err := prepare()
	ready <- err
	if err != nil {
		return // never unlocked: the runtime ends the thread
	}
	for call := range t.calls {
		call()
	}
}

// do runs f on the thread.
func (t *thread) do(f func() error) error {
	result := make(chan error, 1)
	t.calls <- func() { result <- f() }
	return <-result
}

// path is the thread's folder in /proc, for any program.
func (t *thread) path() string { return fmt.Sprintf("/proc/%d/task/%d", os.Getpid(), t.id) }

// end ends the thread, and returns when it has left its namespaces. A nil one has ended.
func (t *thread) end(ctx context.Context) error {
	if t == nil {
		return nil
	}
	close(t.calls)
	return poll(ctx, func(context.Context) (bool, error) {
		_, err := os.Stat(t.path())
		return errors.Is(err, os.ErrNotExist), nil
	})
}

// find returns a component by its name.
func (c *Cluster) find(name string) (*component, error) {
	at := slices.IndexFunc(c.components, func(one *component) bool { return one.name == name })
	if at < 0 {
		return nil, fmt.Errorf("looking for process %q: the cluster has none of that name", name)
	}
	return c.components[at], nil
}

// startComponent starts a component and waits until it is ready.
func (c *Cluster) startComponent(ctx context.Context, wanted *component) error {
	say(c.options.Log, "Starting %s.", wanted.name)
	c.components = append(c.components, wanted)
	if err := c.launch(wanted); err != nil {
		return err
	}
	return c.awaitReady(ctx, wanted)
}

// launch starts the component's process, in the node's namespaces where they apply.
func (c *Cluster) launch(wanted *component) error {
	environment := []string{
		"PATH=" + c.options.BinDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + c.dir, "LC_ALL=C.UTF-8",
	}
	on, atEnd := c.starter, syscall.SIGKILL
	if wanted.inNode {
		on = c.node.inside
		if wanted.program == "" {
			atEnd = 0 // it ends with the first process: to package syscall, a parent in another PID namespace has ended
		}
	}
	return on.do(func() error {
		program := cmp.Or(wanted.program, filepath.Join(c.options.BinDir, wanted.name))
		started, err := launch(program, wanted.arguments, environment, c.LogFile(wanted.name), atEnd)
		if err == nil {
			wanted.process.Store(started)
		}
		return err
	})
}

// pollInterval is short compared with everything that is waited for here.
const pollInterval = 50 * time.Millisecond

// poll calls done until it returns true or an error, or the context ends: then it returns the context's
// error.
func poll(ctx context.Context, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, done)
}

// pollFor is [poll] for at most that time, which also ends the context of done.
func pollFor(ctx context.Context, atMost time.Duration, done wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, pollInterval, atMost, true, done)
}
