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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/pages"
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
		"case", "ticks/s", "CPU, % of one core", "budget", "of it user + system (stat)", "CPU µs/tick",
		"VmRSS MiB", "of it anonymous", "VmHWM MiB", "budget", "requests to the API server",
	}
}

// window is the result of one measurement.
type window struct{ ticks, cpu, stat, rss, anon, peak, requests float64 }

// daemon is a running evictd.
type daemon struct {
	node    *idleNode
	command *exec.Cmd
	address string
	log     bytes.Buffer
}

// measure runs evictd for one case and returns its row.
func (n *idleNode) measure(ctx context.Context, each one) (row []string, err error) {
	d, err := n.start(ctx, each)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	const warmUp = 30 * time.Second
	if err := measure.Sleep(ctx, warmUp); err != nil {
		return nil, err
	}
	var all []window
	for range n.settings.windows {
		w, err := d.window(ctx, each.asked)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	median := func(of func(*window) float64) float64 { return measure.Median(measure.Each(all, of)) }
	seconds := n.settings.window.Seconds()
	ticks := median(func(w *window) float64 { return w.ticks })
	cpu := median(func(w *window) float64 { return w.cpu })
	stat := median(func(w *window) float64 { return w.stat })
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
		fmt.Sprintf("%.2f", 100*stat/seconds), fmt.Sprintf("%.0f", 1e6*cpu/max(ticks, 1)),
		fmt.Sprintf("%.1f", rss), fmt.Sprintf("%.1f", anon), fmt.Sprintf("%.1f", peak), rssBudget, fmt.Sprintf("%.0f", requests),
	}, nil
}

func verdict(got, budget float64) string {
	if got <= budget {
		return fmt.Sprintf("≤ %v: kept", budget)
	}
	return fmt.Sprintf("≤ %v: MISSED", budget)
}

// start runs evictd with the shipped manifest's settings, in its own cgroup.
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
	d := &daemon{node: n, address: address}
	d.command = exec.Command(os.Getenv("EVICTD_BIN"), "run", "--config="+config, "--node-name="+nodeName, //nolint:gosec,noctx // the Makefile built it; stop ends it
		"--kubeconfig="+n.cluster.Kubeconfig(), "--kubepods-cgroup="+n.group+"/"+podsGroup,
		"--host-root="+filepath.Join(n.dir, "host"), "--http-bind-address="+d.address)
	d.command.Env = append(os.Environ(), "GOMEMLIMIT=56MiB")
	d.command.Stderr = &d.log
	if err = d.command.Start(); err != nil {
		return nil, fmt.Errorf("starting evictd: %w", err)
	}
	for _, mount := range hierarchies() {
		procs := filepath.Join(mount, n.group, "evictd", "cgroup.procs")
		if err = os.WriteFile(procs, []byte(strconv.Itoa(d.command.Process.Pid)), 0o600); err != nil { //nolint:gosec // a cgroup of this program
			return nil, errors.Join(fmt.Errorf("moving evictd into its cgroup: %w", err), d.stop())
		}
	}
	const patience, often = 100, 100 * time.Millisecond
	for range patience {
		if _, err = d.get(ctx, "/readyz"); err == nil {
			return d, nil
		}
		if slept := measure.Sleep(ctx, often); slept != nil {
			return nil, errors.Join(slept, d.stop())
		}
	}
	return nil, errors.Join(fmt.Errorf("waiting for evictd to be ready: %w", err), d.stop(), errors.New(d.log.String()))
}

func (d *daemon) stop() error {
	if err := d.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending evictd: %w", err)
	}
	if err := d.command.Wait(); err != nil {
		return fmt.Errorf("evictd ended with a fault: %w: %s", err, d.log.String())
	}
	return nil
}

// window measures once. It scrapes the metrics that count the ticks outside of the measured
// time.
func (d *daemon) window(ctx context.Context, asked bool) (window, error) {
	before, err := d.ticks(ctx)
	if err != nil {
		return window{}, err
	}
	started, err := d.read()
	if err != nil {
		return window{}, err
	}
	if asked {
		err = d.askAsACluster(ctx, d.node.settings.window)
	} else {
		err = measure.Sleep(ctx, d.node.settings.window)
	}
	if err != nil {
		return window{}, err
	}
	ended, err := d.read()
	if err != nil {
		return window{}, err
	}
	after, err := d.ticks(ctx)
	ended.ticks = after - before
	ended.cpu -= started.cpu
	ended.stat -= started.stat
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
			if _, err := d.get(ctx, path); err != nil {
				return err
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
	cpu, err := d.cgroupSeconds()
	note(&w.cpu, err, cpu)
	stat, err := measure.CPU(d.command.Process.Pid) // in ticks of 10 ms
	note(&w.stat, err, stat.Seconds())
	for name, into := range map[string]*float64{"RssAnon": &w.anon, "VmRSS": &w.rss, "VmHWM": &w.peak} {
		held, unread := measure.OfProcess(d.command.Process.Pid, name)
		note(into, unread, float64(held)/(1<<20))
	}
	audit, err := os.ReadFile(d.node.cluster.AuditLog())
	note(&w.requests, err, float64(bytes.Count(audit, []byte(`"userAgent":"evictd/`))))
	if err := errors.Join(faults...); err != nil {
		return w, fmt.Errorf("reading what evictd uses: %w", err)
	}
	return w, nil
}

// cgroupSeconds returns the CPU time of evictd's cgroup, to the nanosecond or the
// microsecond.
func (d *daemon) cgroupSeconds() (float64, error) {
	path, name, unit := cgroupRoot+"/cpuacct/"+d.node.group+"/evictd/cpuacct.usage", "", 1e-9
	if unified() {
		path, name, unit = cgroupRoot+"/"+d.node.group+"/evictd/cpu.stat", "usage_usec ", 1e-6
	}
	text, err := os.ReadFile(path) //nolint:gosec // a cgroup of this program
	if err != nil {
		return 0, fmt.Errorf("reading the cgroup's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	value, err := strconv.ParseFloat(strings.TrimPrefix(line, name), 64)
	return value * unit, err
}

func (d *daemon) ticks(ctx context.Context) (float64, error) {
	text, err := d.get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	read, err := pages.ParseMetrics(text)
	if err != nil {
		return 0, err
	}
	return read.Ticks()
}

func (d *daemon) get(ctx context.Context, path string) (string, error) {
	text, status, err := pages.Get(ctx, http.DefaultClient, "http://"+d.address+path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("requesting %s from evictd: status %d: %s", path, status, text)
	}
	return text, err
}
