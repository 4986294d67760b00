package httpd

import (
	"net"
	"net/http"
	"sync"
)

// The pages are open to every pod of the cluster, and a connection holds 17 KiB: 3,000 idle ones would
// be the container's memory.
const (
	// maxConnections is how many connections there may be, but for those from the node itself: the
	// kubelet's probes must come through, however many others are connected.
	maxConnections = 256
	// maxOfAddress is how many one address may have. A Prometheus has one, a user's browser six.
	maxOfAddress = 16
)

// connections are the open connections of a server.
type connections struct {
	mu  sync.Mutex
	all int            // but for those from the node itself
	by  map[string]int // by the remote address
}

// changed is the server's hook for connections: it closes a new one that is too many, which the
// server then reports as closed.
func (c *connections) changed(connection net.Conn, state http.ConnState) {
	if state != http.StateNew && state != http.StateClosed {
		return
	}
	remote, own := addressOf(connection.RemoteAddr()), addressOf(connection.LocalAddr())
	if c.count(remote, remote == own, state == http.StateNew) {
		_ = connection.Close() // no request has come on it
	}
}

// count counts a connection that was opened, or closed, and reports whether there are too many.
func (c *connections) count(remote string, own, opened bool) (tooMany bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 1
	if !opened {
		n = -1
	}
	if !own {
		c.all += n
	}
	if c.by[remote] += n; c.by[remote] == 0 {
		delete(c.by, remote)
	}
	return opened && (c.by[remote] > maxOfAddress || !own && c.all > maxConnections)
}

// addressOf returns an address without its port.
func addressOf(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}
