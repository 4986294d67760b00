package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// Kubelet returns a client of the kubelet's own API, and the address of that.
func (n *Node) Kubelet(ctx context.Context) (client *http.Client, address string, err error) {
	current, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubelet's port: %w", err)
	}
	if client, err = rest.HTTPClientFor(n.Cluster.RESTConfig()); err != nil {
		return nil, "", fmt.Errorf("building a client of the kubelet: %w", err)
	}
	return client, fmt.Sprintf("https://%s:%d", current.Status.Addresses[0].Address, current.Status.DaemonEndpoints.KubeletEndpoint.Port), nil
}

// Summary returns the kubelet's figures.
func (n *Node) Summary(ctx context.Context) (*statsapi.Summary, error) {
	client, address, err := n.Kubelet(ctx)
	if err != nil {
		return nil, err
	}
	return usage.FetchSummary(ctx, client, address+"/stats/summary")
}

// Filesystems returns the sizes of nodefs and imagefs, in bytes, as the kubelet reports
// them.
func (n *Node) Filesystems(ctx context.Context) (nodefs, imagefs uint64, err error) {
	summary, err := n.Summary(ctx)
	if err != nil {
		return 0, 0, err
	}
	seen := summary.Node
	if seen.Fs == nil || seen.Fs.CapacityBytes == nil ||
		seen.Runtime == nil || seen.Runtime.ImageFs == nil || seen.Runtime.ImageFs.CapacityBytes == nil {
		return 0, 0, errors.New("reading the kubelet's summary: it has not measured the filesystems yet")
	}
	return *seen.Fs.CapacityBytes, *seen.Runtime.ImageFs.CapacityBytes, nil
}
