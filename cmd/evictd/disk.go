package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/usage"
)

// disk measures the pods' disk usage from the source in the current configuration. It is
// used under disk pressure only.
type disk struct {
	summary *summaryDisk
	node    *nodeDisk
	inForce func() *config.EvictdConfiguration
}

func newDisk(
	c *clients, flags *whereFlags, inForce func() *config.EvictdConfiguration, dedicatedImageFS func() (bool, error),
) *disk {
	return &disk{
		summary: &summaryDisk{clients: c, nodeName: flags.nodeName, address: os.Getenv("HOST_IP"), inForce: inForce, dedicatedImageFS: dedicatedImageFS},
		node:    &nodeDisk{hostRoot: flags.hostRoot},
		inForce: inForce,
	}
}

// Measure returns the pods' disk usage by UID. It is for one goroutine.
func (d *disk) Measure(ctx context.Context, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	if c := d.inForce(); c.Disk.Source == config.DiskNode {
		return d.node.measure(ctx, c, pods)
	}
	d.node.close()
	return d.summary.Measure(ctx, pods)
}

func (d *disk) close() { d.node.close() }

// summaryDisk measures the pods' disk usage by the kubelet's Summary API, with the agent's
// own credentials. InForce returns the configuration at the time of the request.
type summaryDisk struct {
	clients          *clients
	nodeName         string
	address          string // of the node, as its kubelet reports it to the pod; "" uses the Node's
	inForce          func() *config.EvictdConfiguration
	dedicatedImageFS func() (bool, error)
}

// kubeletClient sends the agent's token only to a kubelet whose certificate is signed by the
// cluster's authority, unless the administrator has disabled that check.
func (s *summaryDisk) kubeletClient() (*http.Client, error) {
	credentials := rest.CopyConfig(s.clients.config)
	if s.inForce().Kubelet.InsecureSkipTLSVerify {
		credentials.Insecure = true
		credentials.CAData, credentials.CAFile = nil, ""
	}
	transport, err := rest.TransportFor(credentials)
	if err != nil {
		return nil, fmt.Errorf("building a client of the kubelet: %w", err)
	}
	return &http.Client{Transport: transport}, nil
}

// Measure reads the pods' disk usage from the kubelet, by UID.
func (s *summaryDisk) Measure(ctx context.Context, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	dedicated, err := s.dedicatedImageFS()
	if err != nil {
		return nil, fmt.Errorf("finding the filesystem of images: %w", err)
	}
	node, err := s.clients.getNode(ctx, s.nodeName)
	if err != nil {
		return nil, err
	}
	url, err := summaryURL(node, s.address)
	if err != nil {
		return nil, err
	}
	client, err := s.kubeletClient()
	if err != nil {
		return nil, err
	}
	summary, err := usage.FetchSummary(ctx, client, url)
	if err != nil {
		return nil, err
	}
	volumes := make(map[string][]string, len(pods))
	for _, pod := range pods {
		volumes[pod.CgroupUID] = pod.DiskVolumes
	}
	return usage.DiskUses(summary, dedicated, volumes), nil
}
