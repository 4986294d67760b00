package main

import (
	"cmp"
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

	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/pkg/evict"
)

// getNode reads the node. A missing node has its own error text: it is nearly always a wrong
// --node-name.
func getNode(ctx context.Context, c *apiclient.Clients, name string) (*corev1.Node, error) {
	node, err := c.Telling.Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case evict.IsNotFound(err):
		return nil, fmt.Errorf("reading node %s: the API server has no such node; check --node-name: %w", name, err)
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w; check that the API server runs, that this machine reaches it, and the credentials and their right to get nodes", name, err)
	}
	return node, nil
}

// checkNode makes sure, once, that the node exists. It waits for an API
// server that is not available yet, or for the end of the context, which is its error then: evictd may start before
// it, and evicts no pod until it has received the node's pods.
func (d *daemon) checkNode(ctx context.Context) error {
	backoff := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}
	return backoff.DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		node, err := getNode(ctx, d.clients, d.flags.nodeName)
		switch {
		case err == nil:
			d.taints.Found(node)
		case evict.IsNotFound(err):
			return false, err
		case ctx.Err() == nil:
			d.logger.Warn("the node cannot be read; trying again", zap.Error(err))
		}
		return err == nil, nil
	})
}

// summaryURL returns the URL of the node's kubelet: at the address that the kubelet reported
// to the pod (status.hostIP), or at the Node's where that is "", as outside of a cluster.
// The port is the Node's, or the kubelet's default where that has none.
func summaryURL(node *corev1.Node, address string) (string, error) {
	port := cmp.Or(node.Status.DaemonEndpoints.KubeletEndpoint.Port, 10250)
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
