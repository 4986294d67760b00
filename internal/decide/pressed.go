package decide

import (
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// RankedBy returns what pods are ranked by when the signal is under pressure.
func RankedBy(s pressure.Signal) rank.Resource {
	return [...]rank.Resource{
		pressure.MemoryKind: rank.Memory,
		pressure.PIDKind:    rank.PIDs,
		pressure.SpaceKind:  rank.Disk,
		pressure.InodeKind:  rank.Inodes,
	}[s.Kind()]
}

// Noise returns how far a disk's signal must rise to count, in its unit: logs, journals and
// databases move that much all the time.
func Noise(p *pressure.Pressure) int64 { return p.Line / 1000 }

// endReserve is how long a victim that is still to be chosen takes to end: a pod's grace period,
// where it writes none.
const endReserve = 30 * time.Second

// TooLate reports whether a disk would be full before a victim that is chosen after the wait
// could have ended, as far as that can be told.
func TooLate(p *pressure.Pressure, wait time.Duration) bool {
	if p.Observed.Available <= 0 {
		return true // what is full falls no further, and has no forecast
	}
	after, expected := p.Forecast.Exhaustion()
	return expected && after < wait+endReserve
}
