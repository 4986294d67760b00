package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// nodeReader reads nodes, as client-go's client of nodes does.
type nodeReader interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Node, error)
}

// getNode reads the node. A missing node has its own error text: it is nearly always a wrong
// --node-name.
func (c *clients) getNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := c.nodes.Get(ctx, name, metav1.GetOptions{})
	switch {
	case evict.IsNotFound(err):
		return nil, fmt.Errorf("reading node %s: the API server has no such node; check --node-name: %w", name, err)
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", name, c.explain(err, "get nodes"))
	}
	return node, nil
}

// unreadNode is the log's message while the node cannot be read: the consequence for the
// pods until it can.
func unreadNode(err error) string {
	switch apiFaultOf(err) {
	case faultUnreached:
		return "the API server does not answer; no pod is evicted until it does"
	case faultUntrusted:
		return "the API server cannot be trusted; no pod is evicted until it can"
	case faultCredentials:
		return "the API server does not accept the credentials; no pod is evicted until it does"
	case faultRight:
		return "the node may not be read; until then its capacity is not checked and no pod is evicted for disk"
	default:
		return "the node cannot be read; trying again"
	}
}

// checkNode makes sure, once, that the node exists and is this machine. It waits for an API
// server that is not available yet: evictd may start before it, and evicts no pod until it
// has received the node's pods.
func (d *daemon) checkNode(ctx context.Context) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	for {
		node, err := d.clients.getNode(ctx, d.flags.nodeName)
		switch {
		case err == nil:
			d.compareCapacity(node)
			d.taints.Found(node)
			d.foundNode(string(node.UID))
			d.checkBaseRights(ctx)
			d.checkRights(ctx, d.inForce.Load())
			return nil
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of the program is no fault
		case evict.IsNotFound(err):
			return err
		}
		d.logger.Warn(unreadNode(err), zap.Error(err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(backoff.Step()):
		}
	}
}

// compareCapacity warns when this machine's memory is not the node's: lxcfs, a wrong mount
// or a wrong --node-name. It is not an error, because the kubelet may reserve a little.
func (d *daemon) compareCapacity(node *corev1.Node) {
	compared, err := d.host.compareCapacity(node)
	switch {
	case err != nil:
		d.logger.Warn("whether the memory that is read is the node's could not be checked", zap.Error(err))
	case compared.differ():
		d.logger.Warn("the memory that is read is not the node's capacity: check --host-root and --node-name",
			zap.Int64("read_bytes", compared.read), zap.Int64("node_bytes", compared.reported))
	}
}

// capacities are this machine's memory as evictd reads it, and as the Node reports it, in bytes.
type capacities struct{ read, reported int64 }

func (c capacities) differ() bool {
	const tolerance = 0.02
	difference := float64(c.read-c.reported) / float64(c.reported)
	return difference > tolerance || difference < -tolerance
}

// compareCapacity returns both; an error says that one of them is not known.
func (h *host) compareCapacity(node *corev1.Node) (capacities, error) {
	sample := h.read(pressure.Kernel, pressure.MemoryAvailable)
	seen := sample.Of(pressure.MemoryAvailable)
	both := capacities{seen.Capacity, node.Status.Capacity.Memory().Value()}
	if seen.Err == nil && both.reported == 0 {
		return both, errors.New("the node reports no capacity yet")
	}
	return both, seen.Err
}

// defaultKubeletPort is the kubelet's port where the Node has none.
const defaultKubeletPort = 10250

// summaryURL returns the URL of the node's kubelet: at the address that the kubelet reported
// to the pod (status.hostIP), or at the Node's where that is "", as outside of a cluster.
// The port is the Node's.
func summaryURL(node *corev1.Node, address string) (string, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		port = defaultKubeletPort
	}
	for _, one := range node.Status.Addresses {
		if address == "" && one.Type == corev1.NodeInternalIP {
			address = one.Address
		}
	}
	if address == "" {
		return "", errors.New("finding the kubelet: the node has no address of type InternalIP, and $HOST_IP is not set")
	}
	return "https://" + net.JoinHostPort(address, strconv.Itoa(int(port))) + "/stats/summary", nil
}
