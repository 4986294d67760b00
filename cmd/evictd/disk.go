package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/usage"
)

// disk measures the pods' disk usage from the source in the current configuration, under disk pressure only and
// by one goroutine, and what unused images hold.
type disk struct {
	clients *apiclient.Clients
	flags   *runFlags
	inForce func() *config.EvictdConfiguration
	imageFS func(hostRoot string) (dedicated bool, err error) // usage's, which a test replaces

	files  *usage.NodeDisk // the pods' files; nil until the first measurement by them
	bounds config.Disk     // of files
}

func newDisk(c *apiclient.Clients, flags *runFlags, inForce func() *config.EvictdConfiguration) *disk {
	return &disk{clients: c, flags: flags, inForce: inForce, imageFS: usage.DedicatedImageFS}
}

// Measure returns the pods' disk usage by the UIDs of their cgroups.
func (d *disk) Measure(ctx context.Context, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	c := d.inForce()
	if c.Disk.Source == config.DiskNode {
		return d.byFiles(ctx, c, pods)
	}
	d.files = nil // with their figures
	return d.bySummary(ctx, c, pods)
}

// try returns why the source cannot be asked, and whether by the Summary API images are on a filesystem that
// evictd does not see.
func (d *disk) try(ctx context.Context) (unseen bool, err error) {
	c := d.inForce()
	if c.Disk.Source == config.DiskNode {
		return false, d.open(c)
	}
	uses, err := d.bySummary(ctx, c, nil)
	own, _ := d.imageFS(d.flags.hostRoot) // without it there are no uses
	for uid := range uses {
		unseen = unseen || uses[uid].SplitLayers && !own
	}
	return unseen, err
}

// bySummary measures by the kubelet's Summary API, with the agent's own credentials.
func (d *disk) bySummary(ctx context.Context, c *config.EvictdConfiguration, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	dedicated, err := d.imageFS(d.flags.hostRoot)
	if err != nil {
		return nil, err
	}
	node, err := getNode(ctx, d.clients, d.flags.nodeName)
	if err != nil {
		return nil, err
	}
	url, err := summaryURL(node, os.Getenv("HOST_IP"))
	if err != nil {
		return nil, err
	}
	// The agent's token is sent only to a kubelet whose certificate is signed by the cluster's authority, unless the
	// administrator has disabled that check.
	credentials := rest.CopyConfig(d.clients.Config)
	if c.Kubelet.InsecureSkipTLSVerify {
		credentials.Insecure = true
		credentials.CAData, credentials.CAFile = nil, ""
	}
	client, err := rest.HTTPClientFor(credentials)
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

// Unused returns the size of images that no pod of the node uses, from the node's status. It reads the node once,
// and may be called beside [disk.Measure].
func (d *disk) Unused(ctx context.Context, pods []*nodepods.Pod) (measure.UnusedImages, error) {
	node, err := getNode(ctx, d.clients, d.flags.nodeName)
	if err != nil {
		return measure.UnusedImages{}, err
	}
	bytes, err := nodepods.UnusedImages(node.Status.Images, pods)
	dedicated, unseen := d.imageFS(d.flags.hostRoot)
	return measure.UnusedImages{Bytes: bytes, OnNodeFS: !dedicated}, cmp.Or(err, unseen)
}

// byFiles measures by the pods' files on the node. That begins anew when the configuration changes the limits of it.
func (d *disk) byFiles(ctx context.Context, c *config.EvictdConfiguration, pods []*nodepods.Pod) (map[string]usage.DiskUse, error) {
	if d.files == nil || d.bounds != c.Disk {
		if err := d.open(c); err != nil {
			return nil, err
		}
	}
	known := make([]usage.NodePod, 0, len(pods))
	for _, pod := range pods {
		known = append(known, usage.NodePod{UID: pod.CgroupUID, Namespace: pod.Namespace, Name: pod.Name, Containers: pod.RunningContainers})
	}
	measured, err := d.files.Measure(ctx, time.Now(), known)
	if err != nil {
		return nil, fmt.Errorf("looking at the pods' files: %w", err)
	}
	return measured, nil
}

// open prepares to look at the pods' files, without previous figures.
func (d *disk) open(c *config.EvictdConfiguration) error {
	opened, err := usage.OpenNodeDisk(d.flags.hostRoot, c.WalkCores())
	if err != nil {
		return fmt.Errorf("preparing to look at the pods' files (disk.source: node): %w", err)
	}
	d.files, d.bounds = opened, c.Disk
	return nil
}

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
