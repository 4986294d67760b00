package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// figure is one quantity of a level. Its name is the column's, and the slope's where it has one.
type figure struct {
	name   string
	format string
	slope  bool
	of     func(*window) float64
}

// window is one measurement.
type window struct {
	seconds              float64
	heap, goroutines     float64 // of the level: MiB
	rss, etcdRSS         float64 // MiB
	cpu, etcdCPU, own    float64 // seconds of a core for each second, in thousandths
	stolen, idle         float64 // % of the machine
	requests, everybodys float64 // a second: the agents', all clients'
	events               float64 // a second: the API server's watch events of pods, to all clients
	received, sent       float64 // bytes a second, to and from the agents
	replaced             float64 // pods a second
	connections          float64
}

// level is what was measured with a number of agents.
type level struct {
	agents      int
	calm, churn []window
}

// figures returns those of the agents, which have slopes, and those that describe the measurement.
func figures() []figure {
	return []figure{
		{"API server live heap and stacks MiB", "%.1f", true, func(w *window) float64 { return w.heap }},
		{"API server goroutines", "%.0f", true, func(w *window) float64 { return w.goroutines }},
		{"API server RSS MiB", "%.0f", true, func(w *window) float64 { return w.rss }},
		{"API server CPU, thousandths of a core", "%.1f", true, func(w *window) float64 { return w.cpu }},
		{"etcd RSS MiB", "%.0f", true, func(w *window) float64 { return w.etcdRSS }},
		{"etcd CPU, thousandths", "%.1f", true, func(w *window) float64 { return w.etcdCPU }},
		{"to the agents, bytes/s", "%.0f", true, func(w *window) float64 { return w.received }},
		{"from the agents, bytes/s", "%.0f", true, func(w *window) float64 { return w.sent }},
		{"agents' requests/s", "%.2f", true, func(w *window) float64 { return w.requests }},
		{"all clients' requests/s", "%.1f", false, func(w *window) float64 { return w.everybodys }},
		{"watch events of pods/s", "%.1f", false, func(w *window) float64 { return w.events }},
		{"pods replaced/s", "%.2f", false, func(w *window) float64 { return w.replaced }},
		{"connections", "%.0f", false, func(w *window) float64 { return w.connections }},
		{"the agents' own CPU, thousandths", "%.0f", false, func(w *window) float64 { return w.own }},
		{"machine idle %", "%.0f", false, func(w *window) float64 { return w.idle }},
		{"stolen %", "%.1f", false, func(w *window) float64 { return w.stolen }},
	}
}

// slope is a figure by the number of agents.
type slope struct {
	name string
	line measure.Line
}

// levels measures at each number of agents, prints the tables and returns the slopes.
func (b *bench) levels(ctx context.Context) ([]slope, error) {
	if err := b.server.restart(ctx); err != nil {
		return nil, err
	}
	var all []level
	const quarter, half = 4, 2
	for _, n := range []int{0, b.agents / quarter, b.agents / half, b.agents} {
		one, err := b.level(ctx, n)
		if err != nil {
			return nil, fmt.Errorf("with %d agents: %w", n, err)
		}
		all = append(all, one)
	}
	var slopes []slope
	for _, part := range []struct {
		title   string
		windows func(*level) []window
	}{
		{"calm", func(l *level) []window { return l.calm }},
		{fmt.Sprintf("churn of %g %% an hour at %d pods a node", b.churn, b.density), func(l *level) []window { return l.churn }},
	} {
		found, err := b.print(all, part.title, part.windows)
		if err != nil {
			return nil, err
		}
		slopes = append(slopes, found...)
	}
	return slopes, nil
}

// level connects agents until there are that many, and measures.
func (b *bench) level(ctx context.Context, agents int) (level, error) {
	l := level{agents: agents}
	if err := b.calm.Connect(ctx, b.calm.Agents(), agents); err != nil {
		return l, err
	}
	heap, goroutines, err := b.server.settledHeap(ctx)
	if err != nil {
		return l, err
	}
	for _, part := range []struct {
		rate float64
		to   *[]window
	}{{0, &l.calm}, {b.rate(), &l.churn}} {
		for range b.windows {
			w, err := b.measure(ctx, part.rate)
			if err != nil {
				return l, err
			}
			w.heap, w.goroutines = mebibytes(heap), goroutines
			*part.to = append(*part.to, w)
		}
	}
	return l, nil
}

// rate is how many pods are replaced in a second when every node is full.
func (b *bench) rate() float64 {
	const percent = 100
	return float64(b.agents*b.density) * b.churn / percent / time.Hour.Seconds()
}

// measure measures once, while so many pods a second are replaced.
func (b *bench) measure(ctx context.Context, rate float64) (window, error) {
	var work sync.WaitGroup
	var replaced int
	var fault error
	lasting, cancel := context.WithTimeout(ctx, b.window)
	defer cancel()
	before, err := b.server.readAll(ctx)
	if err != nil {
		return window{}, err
	}
	if rate > 0 {
		work.Go(func() { replaced, fault = b.replace(ctx, lasting.Done(), rate) })
	}
	var rss, etcdRSS []float64
	for lasting.Err() == nil {
		_, one, unread := b.server.usage(apiServer)
		if unread != nil {
			return window{}, unread
		}
		_, other, unread := b.server.usage(etcd)
		if unread != nil {
			return window{}, unread
		}
		rss, etcdRSS = append(rss, mebibytes(float64(one))), append(etcdRSS, mebibytes(float64(other)))
		_ = measure.Sleep(lasting, time.Second) // its end is the window's
	}
	work.Wait()
	after, err := b.server.readAll(ctx)
	if err = errors.Join(err, fault); err != nil {
		return window{}, fmt.Errorf("measuring: %w", err)
	}
	w := between(&before, &after)
	w.rss, w.etcdRSS = measure.Median(rss), measure.Median(etcdRSS)
	w.replaced = float64(replaced) / w.seconds
	return w, ctx.Err()
}

// replace replaces pods of one node after the other at a rate until done is closed.
func (b *bench) replace(ctx context.Context, done <-chan struct{}, rate float64) (replaced int, err error) {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	// A step that has no divisor in common with the nodes' number meets all of them, and those
	// with an agent in their share.
	const step = 7919
	for i := 0; ; i += step {
		select {
		case <-done:
			return replaced, nil
		case <-ticker.C:
		}
		if err := b.calm.Replace(ctx, i%b.agents); err != nil {
			return replaced, err
		}
		replaced++
	}
}

// between returns what happened between two readings, for each second.
func between(before, after *reading) window {
	const thousandths, percent = 1000, 100
	seconds := after.at.Sub(before.at).Seconds()
	rate := func(of float64) float64 { return of / seconds }
	w := window{
		seconds: seconds, connections: float64(len(after.traffic)),
		cpu:        thousandths * rate((after.cpu - before.cpu).Seconds()),
		etcdCPU:    thousandths * rate((after.etcdCPU - before.etcdCPU).Seconds()),
		own:        thousandths * rate((after.own - before.own).Seconds()),
		requests:   rate(float64(after.agentsRequests - before.agentsRequests)),
		everybodys: rate(after.requests - before.requests),
		events:     rate(after.events - before.events),
	}
	machine := after.machine.Since(before.machine)
	whole := (machine.Busy + machine.Idle + machine.Stolen).Seconds()
	w.stolen, w.idle = percent*machine.Stolen.Seconds()/whole, percent*machine.Idle.Seconds()/whole
	var received, sent uint64
	for conn, now := range after.traffic {
		was := before.traffic[conn] // zero for a connection that is new
		received += now.Received - was.Received
		sent += now.Sent - was.Sent
	}
	w.received, w.sent = rate(float64(received)), rate(float64(sent))
	return w
}

// print prints a table of all levels, and returns the slopes.
func (b *bench) print(all []level, title string, windows func(*level) []window) ([]slope, error) {
	header, rows, x := []string{"agents"}, make([][]string, len(all)), make([]float64, len(all))
	for i := range all {
		x[i], rows[i] = float64(all[i].agents), []string{fmt.Sprint(all[i].agents)}
	}
	var slopes []slope
	for _, f := range figures() {
		header = append(header, f.name)
		y := make([]float64, len(all))
		for i := range all {
			y[i] = median(windows(&all[i]), f.of)
			rows[i] = append(rows[i], fmt.Sprintf(f.format, y[i]))
		}
		if f.slope {
			slopes = append(slopes, slope{title + ": " + f.name, measure.LeastSquares(x, y)})
		}
	}
	fmt.Printf("\n%s; medians of %d windows of %v; load average now in: %s\n\n", title, b.windows, b.window, measure.Machine())
	if err := measure.Table(os.Stdout, header, rows); err != nil {
		return nil, fmt.Errorf("printing: %w", err)
	}
	return slopes, nil
}

func median(windows []window, of func(*window) float64) float64 {
	var values []float64
	for i := range windows {
		values = append(values, of(&windows[i]))
	}
	return measure.Median(values)
}
