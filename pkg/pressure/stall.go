package pressure

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// StallKind says which stall counts; see Documentation/accounting/psi.rst of Linux. The zero value is
// Some.
type StallKind uint8

// The kinds.
const (
	// Some is time in which at least one task waited for memory.
	Some StallKind = iota
	// Full is time in which every task that could have run waited for memory.
	Full
)

// String returns the kernel's word for the kind.
func (k StallKind) String() string {
	switch k {
	case Some:
		return "some"
	case Full:
		return "full"
	default:
		return fmt.Sprintf("StallKind(%d)", uint8(k))
	}
}

// stallResolution is the number of parts of a window. Within one part the last reading is
// reused: near a threshold the node is sampled every 10 ms, and each reading makes the
// kernel update its averages, which keeps it from looking at unprivileged triggers
// (kernel/sched/psi.c, psi_show and psi_avgs_work).
const stallResolution = 20

// stallSource measures how long tasks waited for memory within a sliding window. It uses the
// kernel's totals, because the kernel's averages lag: avg10 shows a third of a stall that
// has lasted four seconds.
type stallSource struct {
	file   *kernelFile
	kind   StallKind
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

func newStallSource(path string, kind StallKind, window time.Duration) *stallSource {
	return &stallSource{
		file: newKernelFile(path, numberMax*2), kind: kind, window: window,
		points: make([]stallPoint, 0, stallResolution+3),
	}
}

// openStall finds out whether the kernel has memory.stall. A kernel that was built or
// started without PSI has no such signal (psi=0: the file exists, and reading it fails with
// EOPNOTSUPP). Such a node is monitored without it.
func (n *Node) openStall(system) error {
	if !n.wants(MemoryStall) {
		return nil
	}
	n.stall = newStallSource(n.options.host("/proc/pressure/memory"), n.options.StallKind, n.options.StallWindow)
	_, err := n.stall.total()
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP): // such a file is closed
		n.stall, n.noStall = nil, fmt.Errorf("the kernel has no pressure-stall information: %w", err)
	case err != nil:
		return fmt.Errorf("preparing %s: %w", MemoryStall, err)
	}
	return nil
}

// stalls reads memory.stall.
func (n *Node) stalls(now time.Time) Observation {
	if n.stall == nil {
		return absent(n.noStall)
	}
	return n.stall.observe(now)
}

// observe reads memory.stall: the part of the window in which tasks did not wait. Time
// before the first reading is unknown and does not count, so that a stall may be detected
// late but never too early.
func (s *stallSource) observe(now time.Time) Observation {
	if n := len(s.points); n > 0 && now.Sub(s.points[n-1].at) < s.window/stallResolution {
		return s.last
	}
	s.last = s.read(now)
	return s.last
}

// total reads how long tasks have waited since the machine was started, in
// microseconds.
func (s *stallSource) total() (int64, error) {
	content, err := s.file.read()
	if err != nil {
		return 0, err
	}
	total, err := kernelfile.StallTotal(content, s.kind.String())
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", s.file.Path(), err)
	}
	return total, nil
}

func (s *stallSource) read(now time.Time) Observation {
	total, err := s.total()
	if err != nil {
		return unknown(err)
	}
	if grown, elapsed, possible := s.grown(now, total); !possible {
		s.points = s.points[:0]
		return unknown(fmt.Errorf("reading %s: the total grew by %v in %v", s.file.Path(), grown, elapsed))
	}
	s.note(stallPoint{at: now, total: total})
	window := s.window.Microseconds()
	return Observation{State: Known, Available: window - s.stalled(), Capacity: window}
}

// stallSlack is how much the growth of a total may exceed the time since the last reading:
// the two clocks are read one after the other, on a node under pressure.
const stallSlack = time.Second

// grown returns how much the total grew since the last reading. It returns false when that
// is more than the time that has passed: no task can wait longer.
func (s *stallSource) grown(now time.Time, total int64) (grown, elapsed time.Duration, possible bool) {
	if len(s.points) == 0 {
		return 0, 0, true
	}
	last := s.points[len(s.points)-1]
	elapsed = now.Sub(last.at)
	if most := (elapsed + stallSlack).Microseconds(); total-last.total > most {
		return time.Duration(min(total-last.total, math.MaxInt64/1000)) * time.Microsecond, elapsed, false
	}
	return 0, elapsed, true
}

// note adds the point and drops those that no window reaches any more. A total that
// decreases starts a new series.
func (s *stallSource) note(p stallPoint) {
	if n := len(s.points); n > 0 && p.total < s.points[n-1].total {
		s.points = s.points[:0]
	}
	old := 0
	for old+1 < len(s.points) && (p.at.Sub(s.points[old+1].at) >= s.window || len(s.points)-old == cap(s.points)) {
		old++
	}
	s.points = append(s.points[:copy(s.points, s.points[old:])], p)
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
