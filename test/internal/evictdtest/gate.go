package evictdtest

import (
	"io"
	"sync"
)

// gate is open or closed. Its zero value is open.
type gate struct {
	sync.RWMutex

	closed bool // only the test opens and closes it
}

func (g *gate) set(closed bool) {
	switch {
	case closed && !g.closed:
		g.Lock()
	case !closed && g.closed:
		g.Unlock()
	}
	g.closed = closed
}

// gated is a body that is read through a gate.
type gated struct {
	io.ReadCloser

	by *gate
}

func (g *gated) Read(into []byte) (int, error) {
	n, err := g.ReadCloser.Read(into)
	g.by.RLock()
	defer g.by.RUnlock()
	return n, err //nolint:wrapcheck // as it is
}
