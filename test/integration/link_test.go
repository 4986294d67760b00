package integration

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
)

// link is a breakable connection to the API server: it forwards bytes, holds them back, cuts
// connections, or accepts none.
type link struct {
	t        *testing.T
	address  string
	upstream string

	mu       sync.Mutex
	open     *sync.Cond // signalled when held becomes false
	held     bool
	listener net.Listener // nil while connections are refused
	passing  map[net.Conn]bool
	// forgotten are connections on which nothing is forwarded any more.
	forgotten map[net.Conn]bool
}

// newLink returns a link to an address, which ends with the test.
func newLink(t *testing.T, upstream string) *link {
	t.Helper()
	l := &link{t: t, address: freeAddress(t), upstream: upstream, passing: map[net.Conn]bool{}, forgotten: map[net.Conn]bool{}}
	l.open = sync.NewCond(&l.mu)
	l.listen()
	t.Cleanup(l.end)
	return l
}

// listen accepts connections, at its previous address.
func (l *link) listen() {
	l.t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp4", l.address)
	if err != nil {
		l.t.Fatal(err)
	}
	l.mu.Lock()
	l.listener, l.address = listener, listener.Addr().String()
	l.mu.Unlock()
	go l.accept(listener)
}

// refuse accepts no further connection and cuts the existing ones.
func (l *link) refuse() {
	l.mu.Lock()
	_ = l.listener.Close()
	l.mu.Unlock()
	l.cut()
}

// cut resets every connection.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.passing {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an orderly end
		}
		_ = conn.Close()
	}
}

// hold forwards nothing, in either direction, and ends no connection.
func (l *link) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// release forwards what was held back, and everything after it.
func (l *link) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.open.Broadcast()
}

// forget permanently forwards nothing on the existing connections; new ones work.
func (l *link) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.passing {
		l.forgotten[conn] = true
	}
	l.held = false
	l.open.Broadcast()
}

func (l *link) end() {
	l.refuse()
	l.release()
}

func (l *link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go l.connect(client)
	}
}

func (l *link) connect(client net.Conn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(context.Background(), "tcp4", l.upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	l.mu.Lock()
	l.passing[client], l.passing[server] = true, true
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { l.pass(server, client) })
	both.Go(func() { l.pass(client, server) })
	both.Wait()
	l.mu.Lock()
	for _, conn := range []net.Conn{client, server} {
		delete(l.passing, conn)
		delete(l.forgotten, conn)
	}
	l.mu.Unlock()
}

// pass copies until either side ends, and then ends the other.
func (l *link) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if lost := l.await(from); n > 0 && !lost {
			if _, fault := to.Write(buffer[:n]); fault != nil {
				err = errors.Join(err, fault)
			}
		}
		if err != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

// await waits while everything is held back, and reports whether the connection is
// forgotten.
func (l *link) await(from net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held {
		l.open.Wait()
	}
	return l.forgotten[from]
}
