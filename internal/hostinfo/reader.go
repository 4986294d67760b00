package hostinfo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"time"

	"github.com/shirou/gopsutil/v3/common"
)

// timeout is how long a caller waits for an answer. The largest reading, two files for each
// of 5,000 processes, takes about 100 ms on an idle machine.
const timeout = 2 * time.Second

// ErrNoReading is an answer that no running host gives, such as no memory at all.
var ErrNoReading = errors.New("no reading")

// errStillReading: the last reading of the same has not come back yet.
var errStillReading = errors.New("the reading before it has not ended yet")

// Reader reads the host. Its methods may be called from any goroutine.
type Reader struct {
	root     string
	kubepods string
	timeout  time.Duration

	// A reading holds its place in its channel until it ends, which may be later than its caller
	// waits.
	processes, memory chan struct{}
}

// New returns a reader of the host whose root is below a directory, "" is /, with all pods in a cgroup.
func New(hostRoot, kubepods string) *Reader {
	slot := func() chan struct{} { return make(chan struct{}, 1) }
	return &Reader{
		root: filepath.Join("/", hostRoot), kubepods: path.Join("/", kubepods), timeout: timeout,
		processes: slot(), memory: slot(),
	}
}

// path returns the place of a file of the host.
func (r *Reader) path(parts ...string) string {
	return filepath.Join(append([]string{r.root}, parts...)...)
}

// env tells the library where the host is. Otherwise the library would read the environment, which
// the container's configuration sets.
func (r *Reader) env(ctx context.Context) context.Context {
	return context.WithValue(ctx, common.EnvKey, common.EnvMap{common.HostProcEnvKey: r.path("proc")})
}

// answer is what a reading came to.
type answer[T any] struct {
	value T
	err   error
}

// ask reads on a goroutine of its own and waits for it no longer than the reader's timeout: the
// kernel may delay a reading, and the library does not look at its context. At most one goroutine
// is left behind for each slot.
func ask[T any](ctx context.Context, r *Reader, slot chan struct{}, read func(context.Context) (T, error)) (T, error) {
	var none T
	select {
	case slot <- struct{}{}:
	default:
		return none, errStillReading
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	answers := make(chan answer[T], 1)
	go func() {
		defer func() { <-slot }()
		value, err := caught(r.env(ctx), read)
		answers <- answer[T]{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("waiting for an answer: %w", ctx.Err())
	}
}

// caught turns a panic into an error: the library takes fields of a line that may not be there.
func caught[T any](ctx context.Context, read func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			var none T
			value, err = none, fmt.Errorf("%w: %v", ErrNoReading, fault)
		}
	}()
	return read(ctx)
}
