package cluster

import (
	"context"
	"errors"
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

// freePorts finds different ports without a listener. Another program may take one before
// its process does; that process then logs the error.
func freePorts(ctx context.Context, address string, count int) ([]int, error) {
	ports := make([]int, 0, count)
	for _, offset := range rand.Perm(portCount) { //nolint:gosec // only so that two starts at once seldom meet
		if len(ports) == count {
			break
		}
		// All are held until the last is found; otherwise two concurrent searches would find
		// the same.
		listener, err := listen(ctx, address, firstPort+offset)
		if err != nil {
			continue // it is in use
		}
		defer listener.Close() //nolint:errcheck // nothing was sent
		ports = append(ports, firstPort+offset)
	}
	if len(ports) < count {
		return nil, fmt.Errorf("looking for free ports: %d of %d from %d on are free, want %d", len(ports), portCount, firstPort, count)
	}
	return ports, nil
}

// FreeAddress returns a loopback address, with its port, that has no listener. It is below
// the kernel's ephemeral ports, so that it stays free until its process listens, or, after a
// pause, listens again. Two concurrent callers may, very seldom, get the same address.
func FreeAddress(ctx context.Context) (string, error) {
	ports, err := freePorts(ctx, loopback, 1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(loopback, strconv.Itoa(ports[0])), nil
}

const httpsPort = 443

// freeServiceNetwork finds a network of loopback addresses whose first one has port 443
// free. That one becomes the address of the service "kubernetes": Linux answers on all of
// 127.0.0.0/8 without setup, so pods on the host's network reach the API server there
// without kube-proxy.
func freeServiceNetwork(ctx context.Context) (network, first string, err error) {
	const candidates = 100
	offset := rand.IntN(candidates) //nolint:gosec // only so that two starts at once seldom meet
	for i := range candidates {
		prefix := fmt.Sprintf("127.96.%d", 100+(offset+i)%candidates)
		listener, listenErr := listen(ctx, prefix+".1", httpsPort)
		if listenErr != nil {
			err = errors.Join(err, listenErr)
			continue
		}
		return prefix + ".0/24", prefix + ".1", listener.Close()
	}
	return "", "", fmt.Errorf("looking for a loopback address with port %d free: %w", httpsPort, err)
}

func listen(ctx context.Context, address string, port int) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(ctx, "tcp4", net.JoinHostPort(address, strconv.Itoa(port)))
}
