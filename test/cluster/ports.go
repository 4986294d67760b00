package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// Ports are below the kernel's ephemeral ones (net.ipv4.ip_local_port_range, from 32768 on):
// an ephemeral port may be in use by a connection when its process starts to listen.
const (
	firstPort = 20000
	portCount = 12000
)

// FreeAddress returns a loopback address, with its port, that has no listener. It is below
// the kernel's ephemeral ports, so that it stays free until its process listens, or, after a
// pause, listens again. Two concurrent callers may, very seldom, get the same address.
func FreeAddress(ctx context.Context) (address string, err error) {
	for _, offset := range rand.Perm(portCount) { //nolint:gosec // only so that two callers seldom meet
		listener, inUse := listen(ctx, loopback, firstPort+offset)
		if inUse == nil {
			return listener.Addr().String(), listener.Close()
		}
		err = inUse
	}
	return "", fmt.Errorf("looking for a free port from %d on: %w", firstPort, err)
}

// The ports of a cluster, at its own address.
const (
	httpsPort      = 443 // what pods use, and root alone may
	apiserverPort  = 6443
	etcdPort       = 2379
	etcdPeerPort   = 2380
	controllerPort = 10257
	schedulerPort  = 10259
	kubeletPort    = 10250
	kubeletzPort   = 10248
)

// freeNetwork finds a network of loopback addresses whose first one has that port free. That one becomes the address of
// all servers of the cluster and of the service "kubernetes": Linux answers on all of 127.0.0.0/8 without setup, so
// pods on the host's network reach the API server there without kube-proxy.
func freeNetwork(ctx context.Context, port int) (network string, err error) {
	const networks = 16 * 256
	for _, one := range rand.Perm(networks) { //nolint:gosec // only so that two starts at once seldom meet
		network = fmt.Sprintf("127.%d.%d", 96+one/256, one%256)
		listener, inUse := listen(ctx, network+".1", port)
		if inUse == nil {
			return network, listener.Close()
		}
		err = inUse
	}
	return "", fmt.Errorf("looking for a loopback address with port %d free: %w", port, err)
}

func listen(ctx context.Context, address string, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp4", net.JoinHostPort(address, strconv.Itoa(port)))
}
