package pressure

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// stallResolution is the number of parts of a window. Within one part the last reading is
// reused: near a threshold the node is sampled every 10 ms, and each reading makes the
// kernel update its averages, which keeps it from looking at unprivileged triggers
// (kernel/sched/psi.c, psi_show and psi_avgs_work).
const stallResolution = 20

// stallSource measures how long tasks waited for memory within a sliding window. It uses the
// kernel's totals, because the kernel's averages lag: avg10 shows a third of a stall that
// has lasted four seconds.
type stallSource struct {
	file   *kernelfile.File
	buffer []byte // the node's
	kind   string // the kernel's word: "some", or "full"
	window time.Duration
	// points are readings of the total, oldest first: one that is as old as the window,
	// where there is one, and all younger ones.
	points []stallPoint
	last   Observation
}

type stallPoint struct {
	at    time.Time
	total int64 // microseconds
}

// findStall finds out whether the kernel has memory.stall. A kernel that was built or
// started without PSI has no such signal (psi=0: the file exists, and reading it fails with
// EOPNOTSUPP). Such a node is monitored without it.
func (n *Node) findStall() error {
	if !n.wants(MemoryStall) {
		return nil
	}
	s := &stallSource{file: n.file("/proc/pressure/memory"), buffer: n.buffer, kind: "some", window: n.options.StallWindow}
	if n.options.StallFull {
		s.kind = "full"
	}
	_, err := s.total()
	n.readers[MemoryStall] = s.observe
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP): // such a file is closed
		none := fmt.Errorf("the kernel has no pressure-stall information: %w", err)
		n.readers[MemoryStall] = func(time.Time) Observation { return absent(none) }
	case err != nil:
		return fmt.Errorf("preparing %s: %w", MemoryStall, err)
	}
	return nil
}

// observe reads memory.stall: the part of the window in which tasks did not wait. Time
// before the first reading is unknown and does not count, so that a stall may be detected
// late but never too early.
func (s *stallSource) observe(now time.Time) Observation {
	if last := len(s.points) - 1; last >= 0 && now.Sub(s.points[last].at) < s.window/stallResolution {
		return s.last
	}
	total, err := s.total()
	if err == nil {
		err = s.note(stallPoint{now, total})
	}
	window := s.window.Microseconds()
	if s.last = unknown(err); err == nil {
		s.last = Observation{State: Known, Available: window - s.stalled(), Capacity: window}
	}
	return s.last
}

// total reads how long tasks have waited since the machine was started, in
// microseconds.
func (s *stallSource) total() (int64, error) {
	return kernelfile.Parse(s.file, s.buffer, func(content []byte) (int64, error) { return kernelfile.StallTotal(content, s.kind) })
}

// stallSlack is how much the growth of a total may exceed the time since the last reading:
// the two clocks are read one after the other, on a node under pressure.
const stallSlack = time.Second

// note adds the point and drops those that no window reaches any more. A total that
// decreases starts a new series. So does one that grew by more than the time that has passed, which is
// an error: no task can wait longer.
func (s *stallSource) note(p stallPoint) error {
	if n := len(s.points); n > 0 {
		grown, elapsed := p.total-s.points[n-1].total, p.at.Sub(s.points[n-1].at)
		if grown > (elapsed + stallSlack).Microseconds() {
			s.points = nil
			return fmt.Errorf("reading %s: the total grew by %v in %v", s.file.Path, time.Duration(min(grown, math.MaxInt64/1000))*time.Microsecond, elapsed)
		}
		if grown < 0 {
			s.points = nil
		}
	}
	s.points = append(s.points, p)
	old := 0
	for old+1 < len(s.points) && p.at.Sub(s.points[old+1].at) >= s.window {
		old++
	}
	s.points = slices.Delete(s.points, 0, old)
	return nil
}

// stalled returns for how many microseconds of the window tasks waited. Where the points are
// further apart than the window, it is their share of the time between them.
func (s *stallSource) stalled() int64 {
	first, last := s.points[0], s.points[len(s.points)-1]
	waited, elapsed := last.total-first.total, last.at.Sub(first.at)
	if elapsed > s.window {
		waited = int64(float64(waited) * float64(s.window) / float64(elapsed))
	}
	return min(waited, s.window.Microseconds())
}
