package evictdtest

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/evictd/evictd/test/cluster"
)

// Link is the breakable connection to a [Proxy], as its listener: it forwards bytes, holds them back, cuts
// connections, or accepts none.
type Link struct {
	Address string

	t testing.TB

	mu       sync.Mutex
	changed  *sync.Cond
	held     bool
	refuses  bool
	listener net.Listener // closed while connections are refused
	accepted []*connection
}

// newLink listens until the end of the test, or of the server that accepts its connections.
func newLink(tb testing.TB) *Link {
	tb.Helper()
	address, err := cluster.FreeAddress(tb.Context())
	must(tb, err)
	l := &Link{t: tb, Address: address}
	l.changed = sync.NewCond(&l.mu)
	l.Listen()
	return l
}

// Listen accepts connections, at the same address as before.
func (l *Link) Listen() {
	l.t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp4", l.Address)
	must(l.t, err)
	l.set(func() { l.listener, l.refuses = listener, false })
}

// Refuse accepts no further connection and cuts the existing ones.
func (l *Link) Refuse() {
	l.set(func() { l.refuses = true })
	_ = l.Close()
	l.Cut()
}

// Cut resets every connection.
func (l *Link) Cut() {
	l.set(func() {
		for _, c := range l.accepted {
			reset(c.Conn)
		}
		l.accepted = nil
	})
}

// reset ends a connection, but not in the orderly way.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// Hold forwards nothing, in either direction, and ends no connection.
func (l *Link) Hold() { l.set(func() { l.held = true }) }

// Release forwards what was held back, and everything after it.
func (l *Link) Release() { l.set(func() { l.held = false }) }

// Forget permanently forwards nothing on the existing connections; new ones work.
func (l *Link) Forget() {
	l.set(func() {
		for _, c := range l.accepted {
			c.forgotten = true
		}
		l.held = false
	})
}

func (l *Link) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
	l.changed.Broadcast()
}

// Accept implements [net.Listener]. While connections are refused it waits.
func (l *Link) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		listener := l.listener
		l.mu.Unlock()
		conn, err := listener.Accept()
		l.mu.Lock()
		switch {
		case err == nil && (l.refuses || listener != l.listener): // by the kernel, before [Link.Refuse]
			reset(conn)
			continue
		case err == nil:
			c := &connection{Conn: conn, link: l}
			l.accepted = append(l.accepted, c)
			return c, nil
		}
		if !l.refuses && listener == l.listener {
			return nil, err //nolint:wrapcheck // the server has closed it
		}
		for l.refuses {
			l.changed.Wait()
		}
	}
}

// Close implements [net.Listener].
func (l *Link) Close() error { return l.listener.Close() } //nolint:wrapcheck // as it is

// Addr implements [net.Listener].
func (l *Link) Addr() net.Addr { return l.listener.Addr() }

// connection is one that a [Link] has accepted.
type connection struct {
	net.Conn

	link      *Link
	forgotten bool // guarded by the link
}

// isLost waits while everything is held back, and reports whether the connection is forgotten.
func (c *connection) isLost() bool {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for c.link.held {
		c.link.changed.Wait()
	}
	return c.forgotten
}

// Read implements [net.Conn].
func (c *connection) Read(into []byte) (int, error) {
	for {
		n, err := c.Conn.Read(into)
		if lost := c.isLost(); !lost || err != nil {
			return n, err //nolint:wrapcheck // as it is
		}
	}
}

// Write implements [net.Conn].
func (c *connection) Write(from []byte) (int, error) {
	if c.isLost() {
		return len(from), nil
	}
	return c.Conn.Write(from) //nolint:wrapcheck // as it is
}
