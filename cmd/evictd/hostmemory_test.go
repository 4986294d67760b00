package main

import (
	"runtime"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/hostinfo"
)

// On this machine everything is known.
func TestHostMemory(t *testing.T) {
	t.Parallel()
	reader := hostinfo.New("", "/kubepods")
	h := newHostMemory(reader, func(err error) { t.Error(err) })
	ctx, incident := patience(t), "memory.available-1"
	for {
		memory, now := h.MemoryUsed(incident, time.Now()), time.Now()
		largest, pending := h.Processes(incident, now)
		if len(memory) == len(hostinfo.Parts()) && !pending {
			if len(largest) != 3 || largest[0].Name == "" || largest[0].RSS < largest[2].RSS || largest[2].RSS <= 0 {
				t.Errorf("the largest processes: %+v", largest)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("memory %v, processes %v, pending %v", memory, largest, pending)
		}
		runtime.Gosched()
	}
}
