package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
)

// meminfo has the lines that evictd reads.
const meminfo = "MemTotal: 25165824 kB\nMemFree: 19099488 kB\nMemAvailable: 23068672 kB\nBuffers: 0 kB\nCached: 4194304 kB\n" +
	"Shmem: 2048 kB\nSlab: 200000 kB\nSReclaimable: 150000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nHugePages_Total: 0\nHugepagesize: 2048 kB\n"

// machine returns a host root with the files that evictd reads on a node with cgroup v2 for
// memory.available, except for the given paths.
func machine(t *testing.T, without ...string) string {
	t.Helper()
	root := kernelfiletest.Tree{
		"proc/meminfo":                                meminfo,
		"sys/fs/cgroup/cgroup.controllers":            "cpu memory pids\n",
		"sys/fs/cgroup/kubepods.slice/memory.current": "1000\n",
		"sys/fs/cgroup/kubepods.slice/memory.stat":    "anon 1000\nfile 0\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\nshmem 0\n",
		"sys/fs/cgroup/kubepods.slice/memory.max":     "max\n",
		"var/lib/kubelet/pods":                        "",
	}.Plant(t)
	for _, path := range without {
		kernelfiletest.Remove(t, filepath.Join(root, path))
	}
	return root
}

const memoryOnly = head + "evictionHard: {memory.available: 5%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}\n"

// journal receives the log and signals each new line.
type journal struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func newJournal() *journal { return &journal{wrote: make(chan struct{}, 1)} }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case j.wrote <- struct{}{}:
	default:
	}
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// await waits for a line with the message, or with another value of a key.
func (j *journal) await(ctx context.Context, t *testing.T, value string) {
	t.Helper()
	for !strings.Contains(j.String(), `":"`+value+`"`) {
		select {
		case <-j.wrote:
		case <-ctx.Done():
			t.Fatalf("no line %q:\n%s", value, j)
		}
	}
}

// last returns the level, the message and the error of the last line.
func (j *journal) last(t *testing.T) (level, message, fault string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(j.String()), "\n")
	var line struct {
		Level string `json:"level"`
		Msg   string `json:"msg"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil {
		t.Fatalf("%v: the last line is no log line:\n%s", err, j)
	}
	return line.Level, line.Msg, line.Error
}

// running is an `evictd run` in a test.
type running struct {
	t    *testing.T
	log  *journal
	stop context.CancelFunc // SIGTERM
	code chan int
}

// launch starts `evictd run` with the flags.
func launch(t *testing.T, f *runFlags) *running {
	t.Helper()
	log := newJournal()
	root := newRootCommand(func(klog.Logger) {})
	root.SetOut(log)
	root.SetErr(log)
	root.SetArgs([]string{
		"run", "--node-name", f.nodeName, "--http-bind-address", f.address, "--debug-bind-address", f.debug, "--config", f.config, "--host-root", f.hostRoot,
		"--kubeconfig", f.kubeconfig, "--state-dir", f.stateDir,
	})
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	r := &running{t, log, stop, make(chan int, 1)}
	go func() { r.code <- run(ctx, root) }()
	return r
}

// await waits for a line of the log with the message, or with another value of a key.
func (r *running) await(value string) {
	r.t.Helper()
	r.log.await(patience(r.t), r.t, value)
}

// ends waits for the end, which has that exit code.
func (r *running) ends(want int) {
	r.t.Helper()
	select {
	case got := <-r.code:
		if got != want {
			r.t.Errorf("ended with %d, want %d:\n%s", got, want, r.log)
		}
	case <-patience(r.t).Done():
		r.t.Fatalf("did not end:\n%s", r.log)
	}
}

// page returns the content of one of evictd's pages, once it has started.
func (r *running) page(path string) (code int, text string) {
	r.t.Helper()
	r.await("started")
	return get(r.t, regexp.MustCompile(`"address":"([^"]+)"`).FindStringSubmatch(r.log.String())[1], path)
}

// get returns the answer to a request.
func get(t *testing.T, address, path string) (code int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, string(body)
}

// patience is how long a test waits for what must come.
func patience(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// Without an API server evictd starts: its first line says by which thresholds it acts, and how far the node is from
// them. SIGTERM ends it without an error, and the container's state is written to the directory.
func TestRunFromItsStartToItsEnd(t *testing.T) {
	t.Parallel()
	flags := flagsFor(t, machine(t), refusing())
	kernelfiletest.Put(t, filepath.Join(flags.hostRoot, bootIDFile), "boot-1\n")
	flags.stateDir = t.TempDir()
	r := launch(t, flags)
	r.await("started")
	r.await(record.FailedWatch)
	r.await("the node cannot be read; trying again")
	const want = `"thresholds":["memory.available<5% (hard)"],` +
		`"signals":[{"name":"memory.available","state":"Known","available":23622320128,`
	if !strings.Contains(r.log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, r.log)
	}
	r.stop()
	r.ends(exitFine)
	if level, message, fault := r.log.last(t); level != "info" || message != "stopped" || fault != "" {
		t.Errorf("last line %s %q %q; want stopped", level, message, fault)
	}
	// The end does not wait for a slow disk, and here the write goes on after it.
	err := wait.PollUntilContextCancel(patience(t), 10*time.Millisecond, true, func(context.Context) (bool, error) {
		return state.Load(flags.stateDir, "boot-1", &agent.State{}) == nil, nil
	})
	if err != nil {
		t.Error("no state is written")
	}
}

// A fault that ends evictd is reported once, as an error.
func TestFaultThatEndsRunIsAnError(t *testing.T) {
	t.Parallel()
	server := answering(t, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "node-1"))
	r := launch(t, flagsFor(t, machine(t), server))
	r.ends(exitFault)
	level, message, fault := r.log.last(t)
	if level != "error" || message != "stopped by a fault" || !strings.Contains(fault, "check --node-name") {
		t.Errorf("last line %s %q %q; want the fault", level, message, fault)
	}
	if n := strings.Count(r.log.String(), "check --node-name"); n != 1 {
		t.Errorf("said %d times, want once:\n%s", n, r.log)
	}
}

func TestTakenPortSaysWhatToDo(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	taken := listener.Addr().String()
	code, _, stderr := call(t, "run", "--node-name=n", "--http-bind-address", taken, "--config", configFile(t, memoryOnly),
		"--host-root", machine(t), "--kubeconfig", kubeconfigFor(t, refusing()))
	// The kernel's error is logged before; the fault itself is reported once.
	if code != exitFault || strings.Count(stderr, "listening on "+taken) != 1 || !strings.HasSuffix(stderr, "name another address by --http-bind-address\n") {
		t.Errorf("code %d, stderr %q", code, stderr)
	}
	// Without the document evictd evicts all the same.
	flags, log := flagsFor(t, machine(t), refusing()), newJournal()
	flags.debug = taken
	if d := builtDaemon(t, flags, log); len(d.servers) != 1 || !strings.Contains(log.String(), "the document is not served") {
		t.Errorf("%d servers, log %s", len(d.servers), log)
	}
}

// flagsFor are the flags of `evictd run` on the machine and against the server, for memory.available alone.
func flagsFor(t *testing.T, machine, server string) *runFlags {
	t.Helper()
	return &runFlags{
		config: configFile(t, memoryOnly), nodeName: "node-1", hostRoot: machine, kubeconfig: kubeconfigFor(t, server), address: "127.0.0.1:0", debug: "127.0.0.1:0",
	}
}

// builtDaemon returns evictd with all its parts, none of which runs.
func builtDaemon(t *testing.T, flags *runFlags, log *journal) *daemon {
	t.Helper()
	loaded, err := loadConfig(flags.config)
	must(t, err)
	logger := record.NewLogger("info", "json", log)
	d, err := build(t.Context(), flags, loaded, logger)
	must(t, err)
	t.Cleanup(func() { _ = d.wakers.Close() })
	return d
}

// inBackground runs parts of evictd until the end of the test, with the context that it returns.
func inBackground(t *testing.T, parts ...func(context.Context) error) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running errgroup.Group
	for _, part := range parts {
		running.Go(func() error { return part(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		if fault := running.Wait(); fault != nil {
			t.Error(fault)
		}
	})
	return ctx
}

// A configuration that cannot be applied because a part of the host is temporarily missing
// is applied once that part is back.
func TestReloadSucceedsOnceTheHostIsBack(t *testing.T) {
	t.Parallel()
	root := machine(t, "var/lib/kubelet")
	d := builtDaemon(t, flagsFor(t, root, refusing()), newJournal())
	loaded := d.inForce.Load()
	ctx := inBackground(t, d.agent.Run)
	wanted, err := config.Parse([]byte(head + "evictionHard: {nodefs.available: 10%}\n"))
	must(t, err)
	if err := d.putInForce(ctx, wanted); err == nil || !strings.Contains(err.Error(), "var/lib/kubelet") || d.inForce.Load() != loaded {
		t.Errorf("without the kubelet's directory: %v", err)
	}
	must(t, os.MkdirAll(filepath.Join(root, "var/lib/kubelet"), 0o700))
	if err := d.putInForce(ctx, wanted); err != nil || d.inForce.Load() != wanted {
		t.Errorf("with it: %v", err)
	}
}

// While the check of one edit's rights waits for an API server that does not respond, the
// next edit, which may stop all evictions, is applied.
func TestEditDoesNotWaitForTheRights(t *testing.T) {
	t.Parallel()
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
			once.Do(func() { close(asked) })
			<-release
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	log, flags := newJournal(), flagsFor(t, machine(t), server)
	d := builtDaemon(t, flags, log)
	inBackground(t, d.agent.Run, d.followConfiguration)
	edit := func(text string) {
		must(t, os.WriteFile(flags.config, []byte(memoryOnly+text), 0o600))
	}
	edit("taintNode: true\n")
	select {
	case <-asked:
	case <-patience(t).Done():
		t.Fatalf("the rights were not checked:\n%s", log)
	}
	edit("dryRun: true\n")
	waiting := patience(t)
	for !d.inForce.Load().DryRun {
		select {
		case <-log.wrote:
		case <-waiting.Done():
			t.Fatalf("the next edit is not in force:\n%s", log)
		}
	}
	close(release)
}
