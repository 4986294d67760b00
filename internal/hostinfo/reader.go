// Package hostinfo says what evictd's own readers do not: which processes outside the pods
// use the node's memory, and what the memory is used by.
//
// It is the only importer of gopsutil, which allocates for each line it reads: it is for moments that
// are recorded, never for the loop. Three things about gopsutil v3.24.5 are taken care of here.
//
//   - It indexes the fields of a line without counting them. A panic is an error here.
//   - It has contexts and does not look at them. A reading that takes too long is left to end
//     by itself, and no other is begun meanwhile.
//   - Some of its functions start processes (host.InfoWithContext, Process.Children) or send
//     signals (process.NewProcess sends signal 0). They are not called.
package hostinfo

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/decide"
)

const (
	// processesEvery is the least time between two readings.
	processesEvery = 30 * time.Second
	// timeout is how long an answer counts as pending. The largest reading, two files for each of 5,000
	// processes, takes about 100 ms on an idle machine.
	timeout = 2 * time.Second
)

// Reader reads the host. Its methods may be called from any goroutine.
type Reader struct {
	root   string // at which the host's root is
	failed func(error)
	look   func(context.Context) ([]decide.Process, error) // reads the processes

	mu      sync.Mutex // guards all below
	largest []decide.Process
	asked   time.Time // when they were asked for; zero before, which is long ago
	reading bool
}

// New returns a reader of the host whose root is below a directory, "" is /. It reports what cannot be read to
// failed, on any goroutine.
func New(hostRoot string, failed func(error)) *Reader {
	r := &Reader{root: filepath.Join("/", hostRoot), failed: failed}
	r.look = r.outside
	return r
}

// path returns the place of a file of the host.
func (r *Reader) path(parts ...string) string {
	return filepath.Join(append([]string{r.root}, parts...)...)
}

// Processes returns the processes outside the pods that have the most resident memory, by a reading of the
// last half minute, nil where there is none, and whether one is pending. It starts a reading in the background
// when one is due, and does not wait. It implements [record.Host].
func (r *Reader) Processes(now time.Time) (largest []decide.Process, pending bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reading && now.Sub(r.asked) >= processesEvery {
		r.reading, r.asked, r.largest = true, now, nil
		go r.readProcesses()
	}
	return r.largest, r.reading && now.Sub(r.asked) < timeout
}

func (r *Reader) readProcesses() {
	largest, err := r.look(context.Background()) // no caller waits for it
	if err != nil {
		r.failed(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading, r.largest = false, largest
}
