package evictdtest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/evictd/evictd/test/cluster"
)

// TCPProxy is a breakable connection to the API server: it forwards bytes, holds them back, cuts
// connections, or accepts none.
type TCPProxy struct {
	Address string

	t        testing.TB
	upstream string

	mu       sync.Mutex
	open     *sync.Cond // signalled when held becomes false
	held     bool
	listener net.Listener // nil while connections are refused
	passing  map[net.Conn]bool
	// forgotten are connections on which nothing is forwarded any more.
	forgotten map[net.Conn]bool
}

// NewTCPProxy returns a proxy to an address, which ends with the test.
func NewTCPProxy(tb testing.TB, upstream string) *TCPProxy {
	tb.Helper()
	address, err := cluster.FreeAddress(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	p := &TCPProxy{t: tb, Address: address, upstream: upstream, passing: map[net.Conn]bool{}, forgotten: map[net.Conn]bool{}}
	p.open = sync.NewCond(&p.mu)
	p.Listen()
	tb.Cleanup(p.end)
	return p
}

// Listen accepts connections, at its previous address.
func (p *TCPProxy) Listen() {
	p.t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp4", p.Address)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.Address = listener, listener.Addr().String()
	p.mu.Unlock()
	go p.accept(listener)
}

// Refuse accepts no further connection and cuts the existing ones.
func (p *TCPProxy) Refuse() {
	p.mu.Lock()
	_ = p.listener.Close()
	p.mu.Unlock()
	p.Cut()
}

// Cut resets every connection.
func (p *TCPProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.passing {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, not an orderly end
		}
		_ = conn.Close()
	}
}

// Hold forwards nothing, in either direction, and ends no connection.
func (p *TCPProxy) Hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = true
}

// Release forwards what was held back, and everything after it.
func (p *TCPProxy) Release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = false
	p.open.Broadcast()
}

// Forget permanently forwards nothing on the existing connections; new ones work.
func (p *TCPProxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.passing {
		p.forgotten[conn] = true
	}
	p.held = false
	p.open.Broadcast()
}

func (p *TCPProxy) end() {
	p.Refuse()
	p.Release()
}

func (p *TCPProxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		go p.connect(client)
	}
}

func (p *TCPProxy) connect(client net.Conn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(context.Background(), "tcp4", p.upstream)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	p.passing[client], p.passing[server] = true, true
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pass(server, client) })
	both.Go(func() { p.pass(client, server) })
	both.Wait()
	p.mu.Lock()
	for _, conn := range []net.Conn{client, server} {
		delete(p.passing, conn)
		delete(p.forgotten, conn)
	}
	p.mu.Unlock()
}

// pass copies until either side ends, and then ends the other.
func (p *TCPProxy) pass(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if lost := p.await(from); n > 0 && !lost {
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
func (p *TCPProxy) await(from net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held {
		p.open.Wait()
	}
	return p.forgotten[from]
}
