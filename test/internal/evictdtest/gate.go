package evictdtest

import (
	"io"
	"sync"
)

// gate is open or closed. Its zero value is open.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // nil while it is open
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
	if shut {
		g.closed = make(chan struct{})
	}
}

func (g *gate) pass() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

// gated is a body that is read through a gate.
type gated struct {
	io.ReadCloser

	by *gate
}

func (g *gated) Read(into []byte) (int, error) {
	n, err := g.ReadCloser.Read(into)
	g.by.pass()
	return n, err //nolint:wrapcheck // as it is
}
