package main

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/hostinfo"
)

// How often the host's memory is read under pressure. Processes are read when no eviction
// would suffice; that takes about 100 ms on a node with 5,000 of them.
const (
	memoryEvery    = time.Second
	processesEvery = 30 * time.Second
)

// hostMemory reports to the agent what uses the node's memory.
type hostMemory struct {
	used      hostinfo.Latest[decide.Breakdown]
	processes hostinfo.Latest[[]decide.Process]
}

func newHostMemory(reader *hostinfo.Reader, failed func(error)) *hostMemory {
	h := &hostMemory{}
	h.used.Every, h.used.Failed = memoryEvery, failed
	h.used.Read = func(ctx context.Context) (decide.Breakdown, error) {
		memory, err := reader.Memory(ctx)
		b := decide.Breakdown{}
		for _, use := range memory {
			b[decide.Part(use.Part)] = use.Bytes
		}
		return b, err //nolint:wrapcheck // it says what was read
	}
	h.processes.Every, h.processes.Failed = processesEvery, failed
	h.processes.Read = func(ctx context.Context) ([]decide.Process, error) {
		found, err := reader.Processes(ctx)
		var largest []decide.Process
		for _, p := range found {
			largest = append(largest, decide.Process{Name: p.Name, Unit: p.Unit, RSS: p.RSS})
		}
		return largest, err //nolint:wrapcheck // as above
	}
	return h
}

// MemoryUsed implements [agent.Host].
func (h *hostMemory) MemoryUsed(incident string, now time.Time) decide.Breakdown {
	b, _ := h.used.Of(incident, now)
	return b
}

// Processes implements [agent.Host].
func (h *hostMemory) Processes(incident string, now time.Time) (largest []decide.Process, pending bool) {
	return h.processes.Of(incident, now)
}
