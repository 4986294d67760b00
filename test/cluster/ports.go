package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
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
// pause, listens again. It is the caller's until its process ends: no other caller gets it, in any process.
func FreeAddress(ctx context.Context) (string, error) {
	return free(ctx, portCount, func(i int) []string { return []string{net.JoinHostPort(loopback, strconv.Itoa(firstPort+i))} })
}

// free returns the first address of one of so many lists of which no address has a listener.
func free(ctx context.Context, count int, nth func(int) []string) (address string, err error) {
	for _, one := range rand.Perm(count) { //nolint:gosec // only so that two callers seldom meet
		if err = claim(ctx, nth(one)); err == nil {
			return nth(one)[0], nil
		}
	}
	return "", fmt.Errorf("looking for a free address from %s on: %w", nth(0)[0], err)
}

// claim takes addresses for this process, or returns an error where one has a listener or the first is another caller's.
// The claim is an abstract socket, which the kernel removes when the process ends. A listener of package net would be
// closed as soon as nothing refers to it.
func claim(ctx context.Context, addresses []string) error {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	err = unix.Bind(socket, &unix.SockaddrUnix{Name: "@evictd-test-" + addresses[0]})
	if err == nil {
		err = unused(ctx, addresses)
	}
	if err != nil {
		return errors.Join(err, unix.Close(socket))
	}
	return nil
}

// unused returns an error where one of the addresses has a listener.
func unused(ctx context.Context, addresses []string) error {
	var config net.ListenConfig
	for _, address := range addresses {
		listener, err := config.Listen(ctx, "tcp4", address)
		if err != nil {
			return err
		}
		if err = listener.Close(); err != nil {
			return err
		}
	}
	return nil
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

// ports are those of the cluster.
func (c *Cluster) ports() []int {
	ports := []int{c.apiPort(), etcdPort, etcdPeerPort, controllerPort}
	if c.options.Node {
		ports = append(ports, schedulerPort, kubeletPort, kubeletzPort)
	}
	return ports
}

// freeNetwork finds a network of loopback addresses whose first one has those ports free. That one becomes the address
// of all servers of the cluster and of the service "kubernetes": Linux answers on all of 127.0.0.0/8 without setup, so
// pods on the host's network reach the API server there without kube-proxy.
func freeNetwork(ctx context.Context, ports []int) (network string, err error) {
	const networks = 16 * 256
	first, err := free(ctx, networks, func(i int) []string {
		var all []string
		for _, port := range ports {
			all = append(all, fmt.Sprintf("127.%d.%d.1:%d", 96+i/256, i%256, port))
		}
		return all
	})
	network, _, _ = strings.Cut(first, ".1:")
	return network, err
}
