package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/evictd/evictd/test/internal/memory"
)

// gaugeEvery is how often memory and the disk are read.
const gaugeEvery = 10 * time.Millisecond

// Line is what was seen of one line during a run.
type Line struct {
	// Name says whose line it is, Bytes where it is, of the figure that its owner reads.
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	// Below is for how many seconds the figure was below it in all, Depth how far at most, in
	// bytes.
	Below float64 `json:"below"`
	Depth int64   `json:"depth"`
	// First and Last are when it was crossed first, and when the figure was below it last, in
	// seconds since the incident began; meaningless where Below is 0.
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// see takes a reading that was valid for a while.
func (l *Line) see(figure int64, at, lasted float64) {
	if figure >= l.Bytes {
		return
	}
	if l.Below == 0 {
		l.First = at
	}
	l.Below += lasted
	l.Last = at
	l.Depth = max(l.Depth, l.Bytes-figure)
}

// gauge reads the node's memory and its disk during a run.
type gauge struct {
	began time.Time
	lines lines
	disk  *disk

	mu    sync.Mutex
	seen  [linesCount]Line // of memory
	disks [linesCount]Line // of the disk, which has no soft line
	trace []Point
}

// Point is one point of a run's trace: seconds since the incident began, and what is left above
// the stand-in node's end, in MiB: of MemAvailable, and by the kubelet's definition. Lists are the
// free pages on the kernel's per-CPU lists, in MiB, which are part of the first.
type Point struct {
	At      float64 `json:"at"`
	Kernel  int64   `json:"kernel"`
	Kubelet int64   `json:"kubelet"`
	Lists   int64   `json:"lists"`
	// Disk is what is available on the node's disk, in MiB.
	Disk int64 `json:"disk"`
}

// The lines that are followed. Of memory evictd's are of MemAvailable, the kubelet's of what the
// limit of all pods leaves. Of the disk both are of what statfs says.
const (
	softLine = iota
	hardLine
	kubeletLine
	linesCount
)

func newGauge(began time.Time, l *lines, d *disk) *gauge {
	return &gauge{
		began: began, lines: *l, disk: d,
		seen: [linesCount]Line{
			{Name: "evictd's soft line", Bytes: l.Soft}, {Name: "evictd's hard line", Bytes: l.Hard}, {Name: "the kubelet's line", Bytes: l.Kubelet},
		},
		disks: [linesCount]Line{
			hardLine:    {Name: "evictd's line of the disk", Bytes: d.lines.Hard},
			kubeletLine: {Name: "the kubelet's line of the disk", Bytes: d.lines.Kubelet},
		},
	}
}

// reads returns what reads once.
func (g *gauge) reads(podsLeft func() (int64, error)) func(time.Time) error {
	last := time.Now()
	return func(now time.Time) error {
		kernel, err := memory.Kernel()
		kubelets, unread := podsLeft()
		available, missing := g.disk.available()
		if err = errors.Join(err, unread, missing); err != nil {
			return err
		}
		lasted := now.Sub(last)
		last = now
		return g.see(reading{kernel, kubelets, available}, now, lasted)
	}
}

// reading is what is available at a moment, in bytes: memory by the kernel's and by the kubelet's
// definition, and the disk.
type reading struct{ kernel, kubelets, disk int64 }

func (g *gauge) see(r reading, now time.Time, lasted time.Duration) error {
	const traceEvery = 0.25
	at := now.Sub(g.began).Seconds()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen[softLine].see(r.kernel, at, lasted.Seconds())
	g.seen[hardLine].see(r.kernel, at, lasted.Seconds())
	g.seen[kubeletLine].see(r.kubelets, at, lasted.Seconds())
	for i := range g.disks {
		g.disks[i].see(r.disk, at, lasted.Seconds())
	}
	if n := len(g.trace); n > 0 && at < g.trace[n-1].At+traceEvery {
		return nil
	}
	lists, err := memory.FreeOnCPULists()
	if err != nil {
		return fmt.Errorf("reading the per-CPU lists: %w", err)
	}
	g.trace = append(g.trace, Point{at, (r.kernel - g.lines.End) >> 20, r.kubelets >> 20, lists >> 20, r.disk >> 20})
	return nil
}

// told returns what was seen so far.
func (g *gauge) told() (seen, disks []Line, trace []Point) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append(seen, g.seen[:]...), append(disks, g.disks[:]...), append(trace, g.trace...)
}

// lastBelow returns when a figure was below any line last, in seconds since the incident began;
// false when none was.
func (g *gauge) lastBelow() (float64, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last, below := 0.0, false
	for _, l := range append(g.seen[:], g.disks[:]...) {
		if l.Below > 0 {
			last, below = max(last, l.Last), true
		}
	}
	return last, below
}
