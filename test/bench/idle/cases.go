package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// The budget of a node without pressure.
const (
	budgetCPU = 0.2 // % of one core
	budgetRSS = 36  // MiB, including the program's own text
)

// one is a measured case.
type one struct {
	name string
	// configuration is added to an empty one; budget says that the budget applies to it.
	configuration string
	budget        bool
	// asked says that evictd is probed and scraped as in a cluster.
	asked bool
}

func cases() []one {
	return []one{
		{name: "calm, default configuration", budget: true},
		{name: "the same, probed as shipped, scraped every 15 s", asked: true, budget: true},
		// The cost of pacing near a threshold. A tick is the same there, and the rest of the
		// machine would cross a threshold that is really near.
		{name: "a sample every 10 ms (sampling.maxInterval)", configuration: "sampling: {minInterval: 10ms, maxInterval: 10ms}\n"},
	}
}

func header() []string {
	return []string{
		"case", "ticks/s", "CPU, % of one core", "budget", "CPU µs/tick",
		"VmRSS MiB", "of it anonymous", "VmHWM MiB", "budget", "requests to the API server",
	}
}

// window is the result of one measurement.
type window struct{ ticks, cpu, rss, anon, peak, requests float64 }

// daemon is a running evictd.
type daemon struct {
	*evictdtest.Process

	node *idleNode
}

// measure runs evictd for one case and returns its row.
func (n *idleNode) measure(ctx context.Context, each one) (row []string, err error) {
	d, err := n.start(ctx, each)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.End()) }()
	const warmUp = 30 * time.Second
	if err := measure.Sleep(ctx, warmUp); err != nil {
		return nil, err
	}
	var all []window
	for range windows {
		w, err := d.window(ctx, each.asked)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	median := func(of func(*window) float64) float64 { return measure.Median(measure.Each(all, of)) }
	seconds := n.window.Seconds()
	ticks := median(func(w *window) float64 { return w.ticks })
	cpu := median(func(w *window) float64 { return w.cpu })
	rss := median(func(w *window) float64 { return w.rss })
	anon := median(func(w *window) float64 { return w.anon })
	peak := median(func(w *window) float64 { return w.peak })
	requests := median(func(w *window) float64 { return w.requests })
	share := 100 * cpu / seconds
	cpuBudget, rssBudget := "", ""
	if each.budget {
		cpuBudget = verdict(share, budgetCPU)
		rssBudget = verdict(rss, budgetRSS)
	}
	return []string{
		each.name, fmt.Sprintf("%.1f", ticks/seconds), fmt.Sprintf("%.3f", share), cpuBudget,
		fmt.Sprintf("%.0f", 1e6*cpu/max(ticks, 1)),
		fmt.Sprintf("%.1f", rss), fmt.Sprintf("%.1f", anon), fmt.Sprintf("%.1f", peak), rssBudget, fmt.Sprintf("%.0f", requests),
	}, nil
}

func verdict(got, budget float64) string {
	if got <= budget {
		return fmt.Sprintf("≤ %v: kept", budget)
	}
	return fmt.Sprintf("≤ %v: MISSED", budget)
}

// start runs evictd with the shipped manifest's settings.
func (n *idleNode) start(ctx context.Context, each one) (*daemon, error) {
	config := filepath.Join(n.dir, "evictd.yaml")
	text := "apiVersion: evictd.dev/v1alpha1\nkind: EvictdConfiguration\ndryRun: true\n" + each.configuration
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("writing evictd's configuration: %w", err)
	}
	address, err := cluster.FreeAddress(ctx)
	if err != nil {
		return nil, err
	}
	command := exec.Command(os.Getenv("EVICTD_BIN"), "run", "--config="+config, "--node-name="+nodeName, //nolint:gosec,noctx // the Makefile built it; End ends it
		"--kubeconfig="+n.cluster.Kubeconfig(), "--kubepods-cgroup="+n.group,
		"--host-root="+filepath.Join(n.dir, "host"), "--http-bind-address="+address, "--debug-bind-address="+address)
	command.Env = append(os.Environ(), "GOMEMLIMIT=56MiB")
	process, err := evictdtest.Run(command, address)
	if err != nil {
		return nil, err
	}
	err = eventually.Poll(ctx, func(ctx context.Context) bool {
		status, _ := process.Get(ctx, "/readyz")
		return status == http.StatusOK
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for evictd to be ready: %w: %s", err, process.Log), process.End())
	}
	return &daemon{process, n}, nil
}

// window measures once. It scrapes the metrics that count the ticks outside of the measured
// time.
func (d *daemon) window(ctx context.Context, asked bool) (window, error) {
	before, err := d.Ticks(ctx)
	if err != nil {
		return window{}, err
	}
	started, err := d.read()
	if err != nil {
		return window{}, err
	}
	if asked {
		err = d.askAsACluster(ctx, d.node.window)
	} else {
		err = measure.Sleep(ctx, d.node.window)
	}
	if err != nil {
		return window{}, err
	}
	ended, err := d.read()
	if err != nil {
		return window{}, err
	}
	after, err := d.Ticks(ctx)
	ended.ticks = after - before
	ended.cpu -= started.cpu
	ended.requests -= started.requests
	return ended, err
}

// askAsACluster probes as the shipped manifest does and scrapes at a common Prometheus
// interval.
func (d *daemon) askAsACluster(ctx context.Context, during time.Duration) error {
	end := time.Now().Add(during)
	for second := 1; time.Now().Before(end); second++ {
		if err := measure.Sleep(ctx, min(time.Second, time.Until(end))); err != nil {
			return err
		}
		for path, every := range map[string]int{"/readyz": 5, "/livez": 10, "/metrics": 15} {
			if second%every != 0 {
				continue
			}
			if status, text := d.Get(ctx, path); status != http.StatusOK {
				return fmt.Errorf("requesting %s from evictd: status %d: %s", path, status, text)
			}
		}
	}
	return nil
}

// read reads what the process has used so far and its current memory.
func (d *daemon) read() (window, error) {
	var w window
	var faults []error
	note := func(into *float64, err error, value float64) {
		*into = value
		faults = append(faults, err)
	}
	cpu, err := measure.CPU(d.PID())
	note(&w.cpu, err, cpu.Seconds())
	for name, into := range map[string]*float64{"RssAnon": &w.anon, "VmRSS": &w.rss, "VmHWM": &w.peak} {
		held, unread := measure.OfProcess(d.PID(), name)
		note(into, unread, float64(held)/(1<<20))
	}
	audit, err := os.ReadFile(d.node.cluster.AuditLog())
	note(&w.requests, err, float64(bytes.Count(audit, []byte(`"userAgent":"evictd/`))))
	if err := errors.Join(faults...); err != nil {
		return w, fmt.Errorf("reading what evictd uses: %w", err)
	}
	return w, nil
}
