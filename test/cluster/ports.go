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

// freePorts finds different ports that nobody listens on. Another program may
// take one before its process does; that process then says so in its log.
func freePorts(ctx context.Context, address string, count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range count {
		// All are held until the last is found, or one would be found twice.
		listener, err := listen(ctx, address, 0)
		if err != nil {
			return nil, fmt.Errorf("looking for a free port: %w", err)
		}
		defer listener.Close() //nolint:errcheck // nothing was sent
		tcp, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("looking for a free port: unexpected address %s", listener.Addr())
		}
		ports = append(ports, tcp.Port)
	}
	return ports, nil
}

const httpsPort = 443

// freeServiceNetwork finds a network of loopback addresses whose first one has
// port 443 free. That first one becomes the address of the service
// "kubernetes": Linux answers on all of 127.0.0.0/8 without any set-up, so
// pods on the host's network reach the API server there without kube-proxy.
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
