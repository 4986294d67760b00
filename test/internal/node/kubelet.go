package node

import (
	"context"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/pkg/usage"
)

// KubeletFile is the path at which kubeadm writes the kubelet's configuration, and evictd finds it.
const KubeletFile = "/var/lib/kubelet/config.yaml"

// TellEvictd writes the file by which evictd knows where the kubelet evicts.
func (n *Node) TellEvictd(hard map[string]string) error {
	text := []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nevictionHard:\n")
	for signal, threshold := range hard {
		text = fmt.Appendf(text, "  %s: %q\n", signal, threshold)
	}
	if err := os.WriteFile(n.Cluster.InNode(KubeletFile), text, 0o644); err != nil { //nolint:gosec // evictd reads it without extra rights
		return fmt.Errorf("writing the kubelet's file: %w", err)
	}
	return nil
}

// Summary returns the kubelet's figures, by its own API.
func (n *Node) Summary(ctx context.Context) (*statsapi.Summary, error) {
	current, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's port: %w", err)
	}
	client, err := rest.HTTPClientFor(n.Cluster.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("building a client of the kubelet: %w", err)
	}
	status := current.Status
	return usage.FetchSummary(ctx, client, fmt.Sprintf("https://%s:%d/stats/summary", status.Addresses[0].Address, status.DaemonEndpoints.KubeletEndpoint.Port))
}
