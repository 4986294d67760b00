package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/fleet"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/pages"
)

// The processes of the control plane, by the cluster's names.
const (
	apiServer = "kube-apiserver"
	etcd      = "etcd"
)

// server reads the API server and what shares the machine with it.
type server struct {
	cluster *cluster.Cluster
	calm    *fleet.Calm
}

// reading is the state of everything at one moment. CPU times and counts are since the start of
// each process.
type reading struct {
	at                time.Time
	cpu, etcdCPU, own time.Duration
	machine           measure.MachineCPU
	agentsRequests    int
	requests, events  float64                      // of the API server's own metrics: all clients'
	traffic           map[net.Conn]measure.Traffic // of the agents' connections, from the agent's side
}

// usage returns the CPU time and the resident memory of a process.
func (s *server) usage(name string) (cpu time.Duration, rss int64, err error) {
	pid, err := s.cluster.PID(name)
	if err != nil {
		return 0, 0, err //nolint:wrapcheck // it says what does not run
	}
	if cpu, err = measure.CPU(pid); err != nil {
		return 0, 0, err
	}
	rss, err = measure.RSS(pid)
	return cpu, rss, err
}

// readAll is read with the API server's own metrics, which cost it some 0.2 s of CPU time.
func (s *server) readAll(ctx context.Context) (reading, error) {
	families, err := s.metrics(ctx)
	if err != nil {
		return reading{}, err
	}
	r, err := s.read()
	r.requests, _ = families.Sum("apiserver_request_total")
	r.events, _ = families.Sum("apiserver_watch_events_total", "resource", "pods")
	return r, err
}

// read asks the API server for nothing.
func (s *server) read() (r reading, err error) {
	r = reading{at: time.Now(), agentsRequests: len(s.calm.Requests().Since(time.Time{}))}
	if r.cpu, _, err = s.usage(apiServer); err != nil {
		return r, err
	}
	if r.etcdCPU, _, err = s.usage(etcd); err != nil {
		return r, err
	}
	if r.own, err = measure.CPU(os.Getpid()); err != nil {
		return r, err
	}
	r.machine, err = measure.ReadMachineCPU()
	r.traffic = s.traffic()
	return r, err
}

// traffic returns what the agents' connections have carried.
func (s *server) traffic() map[net.Conn]measure.Traffic {
	all := map[net.Conn]measure.Traffic{}
	for _, conn := range s.calm.Requests().Connections() {
		if carried, open := measure.TrafficOf(conn); open {
			all[conn] = carried
		}
	}
	return all
}

// metrics are the API server's own.
func (s *server) metrics(ctx context.Context) (pages.Metrics, error) {
	text, err := s.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return pages.ParseMetrics(text)
}

func (s *server) get(ctx context.Context, path string, parameters ...string) (string, error) {
	request := s.calm.Client().CoreV1().RESTClient().Get().AbsPath(path)
	for i := 0; i+1 < len(parameters); i += 2 {
		request = request.Param(parameters[i], parameters[i+1])
	}
	text, err := request.DoRaw(ctx)
	if err != nil {
		return "", fmt.Errorf("reading the API server's %s: %w", path, err)
	}
	return string(text), nil
}

// settledHeap waits for what the API server does after a change, collects its garbage, and returns what is left in
// its heap and stacks, in bytes, and its goroutines.
func (s *server) settledHeap(ctx context.Context) (bytes, goroutines float64, err error) {
	const settles = 10 * time.Second
	if err = measure.Sleep(ctx, settles); err != nil {
		return 0, 0, err
	}
	if _, err = s.get(ctx, "/debug/pprof/heap", "gc", "1"); err != nil {
		return 0, 0, err
	}
	families, err := s.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	heap, _ := families.Sum("go_memstats_heap_alloc_bytes")
	stacks, _ := families.Sum("go_memstats_stack_inuse_bytes")
	goroutines, _ = families.Sum("go_goroutines")
	return heap + stacks, goroutines, nil
}

// kill ends the API server at once, as a crash does, and returns when it has ended.
func (s *server) kill(ctx context.Context) error {
	if err := s.cluster.Signal(apiServer, syscall.SIGKILL); err != nil {
		return fmt.Errorf("ending the API server: %w", err)
	}
	if err := s.cluster.StopProcess(ctx, apiServer); err != nil {
		return fmt.Errorf("ending the API server: %w", err)
	}
	return nil
}

// restart ends the API server and starts it again: its memory is then that of what it holds, and
// not that of what it did.
func (s *server) restart(ctx context.Context) error {
	if err := s.kill(ctx); err != nil {
		return err
	}
	return s.cluster.StartProcess(ctx, apiServer) //nolint:wrapcheck // it says what it does
}
