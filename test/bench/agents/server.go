package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// The processes of the control plane, by the cluster's names.
const (
	apiServer = "kube-apiserver"
	etcd      = "etcd"
)

// usage returns the CPU time and the resident memory, in MiB, of a process of the control plane.
func (b *bench) usage(name string) (cpu time.Duration, rss float64, err error) {
	pid, err := b.cluster.PID(name)
	if err != nil {
		return 0, 0, err //nolint:wrapcheck // it says what does not run
	}
	bytes, unread := measure.RSS(pid)
	cpu, err = measure.CPU(pid)
	return cpu, float64(bytes) / (1 << 20), errors.Join(err, unread)
}

// killServer ends the API server at once, as a crash does, and returns when it has ended.
func (b *bench) killServer(ctx context.Context) error {
	return errors.Join(b.cluster.Signal(apiServer, syscall.SIGKILL), b.cluster.StopProcess(ctx, apiServer))
}

// stop stops all agents by their ConfigMap and lets them go on, in dry run, as often as wanted, and prints how
// long it takes until each agent's loop has it in force.
func (b *bench) stop(ctx context.Context) error {
	if err := b.start(ctx, b.agents); err != nil || b.stops == 0 {
		return err
	}
	client := b.client.CoreV1().ConfigMaps(evictdtest.AccountName)
	stop := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: acting.StopName}, Data: map[string]string{acting.StopReason: "a measurement"}}
	var stopped, ended []time.Duration
	for range b.stops {
		took, err := b.say(ctx, acting.Stopped, func() error { _, err := client.Create(ctx, stop, metav1.CreateOptions{}); return err })
		if err != nil {
			return err
		}
		stopped = append(stopped, took...)
		if took, err = b.say(ctx, acting.Configured, func() error { return client.Delete(ctx, stop.Name, metav1.DeleteOptions{}) }); err != nil {
			return err
		}
		ended = append(ended, took...)
	}
	fmt.Printf("\nfrom the request to the agent's loop, %d agents, %d times; %s\n\n", b.agents, b.stops, measure.Machine())
	return measure.Table(os.Stdout, []string{"", "first ms", "median ms", "p99 ms", "last ms"}, [][]string{
		append([]string{"ConfigMap created: all are stopped"}, spread(stopped, time.Millisecond)...),
		append([]string{"ConfigMap deleted: all go on"}, spread(ended, time.Millisecond)...),
	})
}

// kill kills the API server as often as wanted, starts it again at once, and prints what its agents do.
func (b *bench) kill(ctx context.Context) error {
	var rows [][]string
	for range b.restarts {
		row, err := b.killOnce(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if rows == nil {
		return nil
	}
	fmt.Printf("\nthe API server is killed and starts again; %d agents; %s\n\n", b.agents, measure.Machine())
	return measure.Table(os.Stdout, []string{
		"in sync after the end: first s", "median s", "p99 s", "last s", "agents' requests", "most in one second",
		"CPU s of the API server", "CPU s of the agents",
	}, rows)
}

func (b *bench) killOnce(ctx context.Context) ([]string, error) {
	before, err := b.usedCPU()
	begin := time.Now()
	if err = errors.Join(err, b.killServer(ctx)); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() { started <- b.cluster.StartProcess(ctx, apiServer) }()
	took, err := b.synced(ctx, begin, b.running)
	cpu, _, unread := b.usage(apiServer)
	after, unknown := b.usedCPU()
	all, most := b.journal.since(begin)
	row := append(spread(took, time.Second), fmt.Sprint(all), fmt.Sprint(most))
	row = append(row, fmt.Sprintf("%.1f", cpu.Seconds()), fmt.Sprintf("%.1f", (after-before).Seconds()))
	return row, errors.Join(<-started, err, unread, unknown)
}

// spread returns the smallest of some durations, the median, the 99th percentile and the largest.
func spread(took []time.Duration, unit time.Duration) (cells []string) {
	for _, q := range []float64{0, 0.5, 0.99, 1} {
		cells = append(cells, fmt.Sprintf("%.4g", float64(measure.Quantile(took, q))/float64(unit)))
	}
	return cells
}
