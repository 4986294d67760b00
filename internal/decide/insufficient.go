package decide

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Unmeasured is a pod that was not measured completely, and why; Told says that the source gave
// that reason itself.
type Unmeasured struct {
	Pod, Why string
	Told     bool
}

// NotKnownToSuffice says that the pods that are known completely do not suffice, and names the
// others.
func (u *Uses) NotKnownToSuffice(signal pressure.Signal, needed int64) string {
	incomplete := u.Incomplete
	names := make([]string, 0, len(incomplete))
	for _, one := range incomplete {
		names = append(names, one.Pod)
	}
	// That rights are missing is worth more than that a pod has not started.
	example := incomplete[max(0, slices.IndexFunc(incomplete, func(one Unmeasured) bool { return one.Told }))]
	return fmt.Sprintf("the candidates are known to hold less than the %s that are needed, and of %d pods not all could be measured: %s; of %s: %s",
		wording.Amount(signal, needed), len(incomplete), wording.Few(names), example.Pod, example.Why)
}

// WouldSuffice names the protected pod that would have sufficed alone, and what protects it: the
// one that uses most. It is "" when there is none, and for a stall, which is not measured by what a
// pod uses.
func WouldSuffice(d *Decision, missing int64) string {
	e := largest(d.Ranking.Protected)
	if e == nil || e.Pod.Usage <= missing || d.Pressure.Threshold.Signal == pressure.MemoryStall {
		return ""
	}
	return fmt.Sprintf("; %s alone uses %s and is protected: %s",
		e.Pod.Key(), wording.Amount(d.Pressure.Threshold.Signal, e.Pod.Usage), e.Protection)
}

// elsewhere says what uses up a signal besides pods.
func elsewhere(signal pressure.Signal) string {
	const onDisk = "images, hostPath volumes, files of the host and deleted files that are still open"
	return [...]string{
		pressure.MemoryKind: "processes of the host, page cache and kernel memory",
		pressure.PIDKind:    "processes of the host",
		pressure.SpaceKind:  onDisk,
		pressure.InodeKind:  onDisk,
	}[signal.Kind()]
}

// largest returns the protected pod that uses most, nil where no usage is known.
func largest(protected []rank.Entry) *rank.Entry {
	var found *rank.Entry
	for i := range protected {
		e := &protected[i]
		if e.Pod.Sampled && (found == nil || e.Pod.Usage > found.Pod.Usage) {
			found = e
		}
	}
	return found
}
