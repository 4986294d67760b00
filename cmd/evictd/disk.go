package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/usage"
)

// defaultKubeletPort is the kubelet's port where the node does not name it.
const defaultKubeletPort = 10250

// summaryDisk measures the pods' disk use by the kubelet's Summary API. It is asked
// under disk pressure only.
type summaryDisk struct {
	client           kubernetes.Interface
	config           *rest.Config
	nodeName         string
	dedicatedImageFS func() (bool, error)
}

// newSummaryDisk keeps the agent's own credentials for the kubelet. The token goes
// to a kubelet whose certificate the cluster's authority signed, or to any when
// the administrator has written so.
func newSummaryDisk(c *clients, nodeName string, insecure bool, dedicatedImageFS func() (bool, error)) *summaryDisk {
	config := rest.CopyConfig(c.config)
	if insecure {
		config.Insecure = true
		config.CAData, config.CAFile = nil, ""
	}
	return &summaryDisk{client: c.telling, config: config, nodeName: nodeName, dedicatedImageFS: dedicatedImageFS}
}

// Measure asks the kubelet for the pods' disk use, by UID.
func (s *summaryDisk) Measure(ctx context.Context, pods []*corev1.Pod) (map[string]usage.DiskUse, error) {
	dedicated, err := s.dedicatedImageFS()
	if err != nil {
		return nil, fmt.Errorf("finding the filesystem of images: %w", err)
	}
	node, err := getNode(ctx, s.client, s.nodeName)
	if err != nil {
		return nil, err
	}
	url, err := summaryURL(node)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(s.config)
	if err != nil {
		return nil, fmt.Errorf("building a client of the kubelet: %w", err)
	}
	summary, err := usage.FetchSummary(ctx, &http.Client{Transport: transport}, url)
	if err != nil {
		return nil, err
	}
	volumes := make(map[string][]string, len(pods))
	for _, pod := range pods {
		volumes[string(pod.UID)] = nodepods.DiskVolumes(pod)
	}
	return usage.DiskUses(summary, dedicated, volumes), nil
}

// summaryURL says where the node's kubelet answers.
func summaryURL(node *corev1.Node) (string, error) {
	port := node.Status.DaemonEndpoints.KubeletEndpoint.Port
	if port == 0 {
		port = defaultKubeletPort
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return "https://" + net.JoinHostPort(address.Address, strconv.Itoa(int(port))) + "/stats/summary", nil
		}
	}
	return "", errors.New("finding the kubelet: the node has no address of type InternalIP")
}
