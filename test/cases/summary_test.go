package cases

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// newSummary serves the kubelet's Summary API over TLS, with a certificate of the test.
func newSummary(tb testing.TB, n *node) *httptest.Server {
	tb.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats/summary" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if json.NewEncoder(w).Encode(n.summary()) != nil {
			return // evictd has ended
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that evictd's end cuts off
	server.StartTLS()
	tb.Cleanup(server.Close)
	return server
}

// summary is what the kubelet says now of the disks and of what each pod uses of them.
func (n *node) summary() *stats.Summary {
	now := metav1.Now()
	used := func(q *resource.Quantity) *stats.FsStats {
		bytes, inodes := uint64(bytesOf(q, 0)), uint64(1)
		return &stats.FsStats{Time: now, UsedBytes: &bytes, InodesUsed: &inodes}
	}
	filesystem := func(capacity *resource.Quantity) *stats.FsStats {
		whole, half, inodes := uint64(bytesOf(capacity, 0)), uint64(bytesOf(capacity, 0)/2), uint64(1<<20)
		fs := used(nil)
		fs.CapacityBytes, fs.AvailableBytes, fs.Inodes, fs.InodesFree = &whole, &half, &inodes, &inodes
		return fs
	}
	s := &stats.Summary{Node: stats.NodeStats{NodeName: nodeName, StartTime: now}, Pods: []stats.PodStats{}}
	if n.of.ImageFS != nil {
		s.Node.Fs = filesystem(n.of.NodeFS)
		s.Node.Runtime = &stats.RuntimeStats{ImageFs: filesystem(n.of.ImageFS), ContainerFs: filesystem(n.of.ImageFS)}
	}
	for _, p := range n.pods {
		container := stats.ContainerStats{Name: "main", StartTime: now, Rootfs: used(p.use.Layer)}
		if !p.use.NoLogs {
			container.Logs = used(p.use.Logs)
		}
		s.Pods = append(s.Pods, stats.PodStats{
			PodRef: stats.PodReference{Name: p.Name, Namespace: p.Namespace, UID: uidOf(p)}, StartTime: now, Containers: []stats.ContainerStats{container},
		})
	}
	return s
}
