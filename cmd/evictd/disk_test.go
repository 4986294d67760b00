package main

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/config"
)

// An edit of kubelet.insecureSkipTLSVerify takes effect without a restart, both ways, and
// until then the token is not sent to an untrusted server.
func TestKubeletCertificateFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	api := newDoctorAPI(t)
	clients := clientsFor(t, &runFlags{kubeconfig: kubeconfigFor(t, api.url)})
	clients.Config.BearerToken = "a-token" // client-go reads none for a server without TLS
	var inForce atomic.Pointer[config.EvictdConfiguration]
	disk := newDisk(clients, &runFlags{nodeName: "node-1"}, inForce.Load)
	disk.imageFS = func(string) (bool, error) { return false, nil } // images have no filesystem of their own
	for i, skip := range []bool{false, true, false} {
		c := config.Default()
		c.Kubelet.InsecureSkipTLSVerify = skip
		inForce.Store(c)
		_, err := disk.Measure(t.Context(), nil)
		switch tokens := api.tokensForTheKubelet(); {
		case skip && (err != nil || !slices.Equal(tokens, []string{"Bearer a-token"})):
			t.Errorf("step %d, any certificate: asked with %q, %v", i, tokens, err)
		case !skip && (err == nil || !strings.Contains(err.Error(), "certificate") || len(tokens) > 0):
			t.Errorf("step %d, signed certificates only: asked with %q, %v", i, tokens, err)
		}
	}
}

// The kubelet's own address precedes the Node's, which may be out of date or missing.
func TestKubeletIsAskedAtTheAddressItToldThePod(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10251
	if _, err := summaryURL(node, ""); err == nil {
		t.Error("a node without an address has one")
	}
	if got, err := summaryURL(node, "fd00::1"); err != nil || got != "https://[fd00::1]:10251/stats/summary" {
		t.Errorf("%s, %v", got, err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
	for told, want := range map[string]string{"": "https://10.0.0.7:10251/stats/summary", "10.0.0.8": "https://10.0.0.8:10251/stats/summary"} {
		if got, err := summaryURL(node, told); err != nil || got != want {
			t.Errorf("told %q: %s, %v; want %s", told, got, err, want)
		}
	}
}
