package httpd

import (
	"net"
	"net/http"
	"sync"
)

// The pages are open to every pod of the cluster, and a connection holds 17 KiB: 3,000 idle ones would
// be the container's memory. Those from the node itself are not counted among all: the kubelet's probes
// must come through. One address has few: a Prometheus needs one, a user's browser six.
const (
	maxConnections = 256
	maxOfAddress   = 16
)

// connections are the open connections of a server.
type connections struct {
	mu  sync.Mutex
	all int            // but for those from the node itself
	by  map[string]int // by the remote address
}

// changed is the server's hook for connections: it closes a new one that is too many, on which no
// request has come. The server then reports it as closed.
func (c *connections) changed(connection net.Conn, state http.ConnState) {
	n := map[http.ConnState]int{http.StateNew: 1, http.StateClosed: -1}[state]
	if n == 0 {
		return
	}
	remote, _, _ := net.SplitHostPort(connection.RemoteAddr().String())
	local, _, _ := net.SplitHostPort(connection.LocalAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	if remote != local {
		c.all += n
	}
	if c.by[remote] += n; c.by[remote] == 0 {
		delete(c.by, remote)
	}
	if n > 0 && (c.by[remote] > maxOfAddress || remote != local && c.all > maxConnections) {
		_ = connection.Close()
	}
}
