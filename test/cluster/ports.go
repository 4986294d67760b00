package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
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
func FreeAddress(ctx context.Context) (string, error) {
	return free(ctx, portCount, func(i int) string { return net.JoinHostPort(loopback, strconv.Itoa(firstPort+i)) })
}

// free returns one of so many addresses that has no listener.
func free(ctx context.Context, count int, nth func(int) string) (address string, err error) {
	var config net.ListenConfig
	for _, one := range rand.Perm(count) { //nolint:gosec // only so that two callers seldom meet
		listener, inUse := config.Listen(ctx, "tcp4", nth(one))
		if inUse == nil {
			return nth(one), listener.Close()
		}
		err = inUse
	}
	return "", fmt.Errorf("looking for a free address from %s on: %w", nth(0), err)
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
	first, err := free(ctx, networks, func(i int) string { return fmt.Sprintf("127.%d.%d.1:%d", 96+i/256, i%256, port) })
	return strings.TrimSuffix(first, fmt.Sprintf(".1:%d", port)), err
}
