package main

import (
	"errors"
	"sync"
	"time"

	"github.com/evictd/evictd/test/internal/memory"
)

// gaugeEvery is how often memory and the disk are read.
const gaugeEvery = 10 * time.Millisecond

// Line is what was seen of one line during a run.
type Line struct {
	// Bytes is where it is, of the figure that its owner reads.
	Bytes int64 `json:"bytes"`
	// First is when the figure was below it first, in seconds since the incident began. It means nothing where Below is 0.
	First float64 `json:"first"`
	// Below is for how many seconds the figure was below it in all, Depth how far at most, in
	// bytes.
	Below float64 `json:"below"`
	Depth int64   `json:"depth"`
}

// see takes a reading that was valid for a while at a moment, both in seconds, and reports whether it is below the line.
func (l *Line) see(figure int64, at, lasted float64) bool {
	if figure >= l.Bytes {
		return false
	}
	if l.Below == 0 {
		l.First = at
	}
	l.Below += lasted
	l.Depth = max(l.Depth, l.Bytes-figure)
	return true
}

// gauge reads the node's memory and its disk during a run.
type gauge struct {
	disk *disk

	mu    sync.Mutex
	seen  [linesCount]Line // of memory
	disks [linesCount]Line // of the disk, which has no soft line
	below time.Time        // when a figure was below any of them last
}

// The lines that are followed. Of memory evictd's are of MemAvailable, the kubelet's of what the
// limit of all pods leaves. Of the disk both are of what statfs says.
const (
	softLine = iota
	hardLine
	kubeletLine
	linesCount
)

func newGauge(l *lines, d *disk) *gauge {
	return &gauge{
		disk:  d,
		seen:  [linesCount]Line{softLine: {Bytes: l.Soft}, hardLine: {Bytes: l.Hard}, kubeletLine: {Bytes: l.Kubelet}},
		disks: [linesCount]Line{hardLine: {Bytes: d.hard}, kubeletLine: {Bytes: d.kubelet}},
	}
}

// reads returns what reads once: memory by the kernel's and by the kubelet's definition, and the disk.
func (g *gauge) reads(podsLeft func() (int64, error)) func(time.Time) error {
	began := time.Now()
	last := began
	return func(now time.Time) error {
		kernel, err := memory.Kernel()
		kubelets, unread := podsLeft()
		available, missing := g.disk.available()
		at, lasted := now.Sub(began).Seconds(), now.Sub(last).Seconds()
		last = now
		g.mu.Lock()
		defer g.mu.Unlock()
		for i, figure := range [linesCount]int64{softLine: kernel, hardLine: kernel, kubeletLine: kubelets} {
			memory, disk := g.seen[i].see(figure, at, lasted), g.disks[i].see(available, at, lasted)
			if memory || disk {
				g.below = now
			}
		}
		return errors.Join(err, unread, missing)
	}
}

// lastBelow returns when a figure was below any line last; zero when none was.
func (g *gauge) lastBelow() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.below
}
