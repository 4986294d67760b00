package agent

import (
	"time"

	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// followReclaim tells of the victims that have ended what the node got back by it.
func (a *Agent) followReclaim(now time.Time, ended []inflight.Booking) {
	for _, victim := range a.victims.ObserveBooks(now, ended, a.readBooks) {
		a.options.Recorder.VictimEnded(&victim)
	}
}

// readBooks reads the cgroups of all pods and, right after them, the node: a victim that
// takes a gigabyte a second would otherwise be seen at two sizes. The zero value is what there
// is where a pod could not be read.
func (a *Agent) readBooks() inflight.Books {
	pods, err := a.measurer.Collect()
	if err != nil {
		return inflight.Books{}
	}
	return booksOf(a.options.Sampler.Sample(a.options.Clock.Now()), pods, a.policy.MemoryAvailable)
}

// booksOf returns the books by a sample and what the pods hold.
func booksOf(sample pressure.Sample, pods []usage.Pod, memory pressure.MemoryDefinition) inflight.Books {
	books := inflight.Books{Held: make(map[string]pressure.Amounts, len(pods))}
	for _, signal := range pressure.Signals() {
		if seen := sample.Of(signal); seen.State == pressure.Known {
			books.Available = books.Available.With(signal, seen.Available)
		}
	}
	for i := range pods {
		books.Held[pods[i].UID] = measure.Expected(&pods[i], memory)
	}
	return books
}
