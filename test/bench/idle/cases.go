package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// The budget of a node without pressure.
const (
	budgetCPU = 0.2 // % of one core
	budgetRSS = 36  // MiB, including the program's own text
)

const (
	windows    = 3 // measurements of each case; their median is shown
	cgroupRoot = "/sys/fs/cgroup"
)

// one is a measured case.
type one struct {
	name string
	// settings are those of its configuration; budget says that the budget applies to it.
	settings string
	budget   bool
	// during lasts for a window.
	during func(context.Context, *evictdtest.Process) error
}

// measureAgent measures every case on one node and prints them. The pods' cgroups have no processes: without
// pressure evictd reads none of them.
func (b *bench) measureAgent(ctx context.Context) (err error) {
	// It is not named kubepods: an evictd of a real node on the machine would find two and report that.
	group := "pods-of-the-idle-node-" + strconv.Itoa(os.Getpid())
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, cluster.RemoveCgroups(after, group))
	}()
	uids, err := b.makeNode(ctx, 0)
	for i := 0; err == nil && i < len(uids); i++ {
		err = makeGroup(group, "burstable/pod"+string(uids[i])+"/container")
	}
	host, unmade := b.makeHost()
	if err = errors.Join(err, unmade); err != nil {
		return err
	}
	var rows [][]string
	for _, each := range []one{
		{name: "calm, default configuration", budget: true, during: b.sleep},
		{name: "the same, probed as shipped, scraped every 15 s", budget: true, during: b.askAsACluster},
		// The cost of pacing near a threshold. A tick is the same there, and the rest of the
		// machine would cross a threshold that is really near.
		{name: "a sample every 10 ms (sampling.maxInterval)", settings: "sampling: {minInterval: 10ms, maxInterval: 10ms}\n", during: b.sleep},
	} {
		fmt.Printf("%s: %d times %v.\n", each.name, windows, b.window)
		row, err := b.measure(ctx, &each, host, group)
		if err != nil {
			return fmt.Errorf("measuring %q: %w", each.name, err)
		}
		fmt.Println(" ", strings.Join(row[1:], " | "))
		rows = append(rows, row)
	}
	fmt.Printf("\n%s; %d pods; medians of %d times %v\n\n", measure.Machine(), b.pods, windows, b.window)
	return measure.Table(os.Stdout, []string{
		"case", "ticks/s", "CPU, % of one core", "budget", "CPU µs/tick",
		"VmRSS MiB", "of it anonymous", "VmHWM MiB", "budget", "requests to the API server",
	}, rows)
}

// makeHost makes what the shipped DaemonSet mounts below its host root; only the filesystem of the directories matters.
func (b *bench) makeHost() (*evictdtest.Host, error) {
	root := filepath.Join(b.dir, "host")
	var err error
	for _, dir := range []string{"var/lib/kubelet", "var/lib/containerd", "sys/fs"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(root, dir), 0o700))
	}
	err = errors.Join(err, os.Symlink("/proc", filepath.Join(root, "proc")), os.Symlink(cgroupRoot, filepath.Join(root, cgroupRoot)))
	return &evictdtest.Host{Root: root}, err
}

// makeGroup creates a group below that of the pods. On v2 each group delegates its controllers.
func makeGroup(pods, name string) error {
	mounts := []string{cgroupRoot + "/memory", cgroupRoot + "/pids"}
	_, err := os.Stat(cgroupRoot + "/cgroup.controllers")
	unified := err == nil
	if unified {
		mounts = []string{cgroupRoot}
	}
	for _, mount := range mounts {
		dir := filepath.Join(mount, pods, name)
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the mode of every cgroup
			return fmt.Errorf("making a cgroup: %w", err)
		}
		for above := filepath.Dir(dir); unified && above != mount; above = filepath.Dir(above) {
			err := os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+memory +pids"), 0o600)
			if err != nil && above == filepath.Join(mount, pods) {
				return fmt.Errorf("handing controllers down: %w", err)
			}
		}
	}
	return nil
}

// The figures of a window: those before rss are what was used in it, the others what is held at its end.
const (
	ticks = iota
	cpu   // s
	requests
	rss // MiB, as the others
	anonymous
	peak
	figures
)

// measure runs evictd for one case and returns its row.
func (b *bench) measure(ctx context.Context, each *one, host *evictdtest.Host, group string) (row []string, err error) {
	agent, err := b.start(0, host, each.settings, "--kubepods-cgroup="+group)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.End()) }()
	const warmUp = 30 * time.Second
	if err = errors.Join(ready(ctx, agent), measure.Sleep(ctx, warmUp)); err != nil {
		return nil, err
	}
	var all [figures][]float64
	for range windows {
		window, err := b.measureWindow(ctx, each, agent)
		if err != nil {
			return nil, err
		}
		for i, value := range window {
			all[i] = append(all[i], value)
		}
	}
	median := func(figure int) float64 { return measure.Median(all[figure]) }
	share := 100 * median(cpu) / b.window.Seconds()
	verdict := func(got, budget float64) string {
		switch {
		case !each.budget:
			return ""
		case got <= budget:
			return fmt.Sprintf("≤ %v: kept", budget)
		}
		return fmt.Sprintf("≤ %v: MISSED", budget)
	}
	return []string{
		each.name, fmt.Sprintf("%.1f", median(ticks)/b.window.Seconds()), fmt.Sprintf("%.3f", share), verdict(share, budgetCPU),
		fmt.Sprintf("%.0f", 1e6*median(cpu)/max(median(ticks), 1)), fmt.Sprintf("%.1f", median(rss)), fmt.Sprintf("%.1f", median(anonymous)),
		fmt.Sprintf("%.1f", median(peak)), verdict(median(rss), budgetRSS), fmt.Sprintf("%.0f", median(requests)),
	}, nil
}

// measureWindow measures once. It scrapes the metrics that count the ticks outside of the measured time.
func (b *bench) measureWindow(ctx context.Context, each *one, agent *evictdtest.Process) (window [figures]float64, err error) {
	before, err := agent.Ticks(ctx)
	began, unread := b.read(agent.PID())
	if err = errors.Join(err, unread); err == nil {
		err = each.during(ctx, agent)
	}
	window, unread = b.read(agent.PID())
	after, uncounted := agent.Ticks(ctx)
	window[ticks] = after - before
	window[cpu] -= began[cpu]
	window[requests] -= began[requests]
	return window, errors.Join(err, unread, uncounted)
}

// read reads what a process has used so far and its current memory, and how many requests agents have made.
func (b *bench) read(pid int) (read [figures]float64, err error) {
	used, err := measure.CPU(pid)
	read[cpu] = used.Seconds()
	for name, figure := range map[string]int{"RssAnon": anonymous, "VmRSS": rss, "VmHWM": peak} {
		held, unread := measure.OfProcess(pid, name)
		read[figure], err = float64(held)/(1<<20), errors.Join(err, unread)
	}
	made, unread := b.requests()
	read[requests] = made
	return read, errors.Join(err, unread)
}
