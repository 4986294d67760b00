package main

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/config"
)

// An edit of kubelet.insecureSkipTLSVerify takes effect without a restart, both ways, and
// until then the token is not sent to an untrusted server.
func TestKubeletCertificateFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer a-token" {
			t.Errorf("asked with %q, want evictd's token", r.Header.Get("Authorization"))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"node": {"nodeName": "node-1"}, "pods": []}`)
	}))
	kubelet.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the rejected certificate
	kubelet.StartTLS()
	t.Cleanup(kubelet.Close)
	address, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
			Status: corev1.NodeStatus{
				Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
				DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
			},
		})
	}))
	t.Cleanup(api.Close)
	clients, err := newClients(&runFlags{kubeconfig: kubeconfigFor(t, api.URL)}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	clients.config.BearerToken = "a-token" // client-go reads none for a server without TLS
	var inForce atomic.Pointer[config.EvictdConfiguration]
	disk := &disk{clients: clients, flags: &runFlags{nodeName: "node-1"}, inForce: inForce.Load, dedicatedImageFS: onNodeFS}
	for i, skip := range []bool{false, true, false} {
		c := config.Default()
		c.Kubelet.InsecureSkipTLSVerify = skip
		inForce.Store(c)
		before := asked.Load()
		_, err := disk.Measure(t.Context(), nil)
		if skip && (err != nil || asked.Load() != before+1) {
			t.Errorf("step %d, any certificate: asked %d times, %v", i, asked.Load()-before, err)
		}
		if !skip && (err == nil || !strings.Contains(err.Error(), "certificate") || asked.Load() != before) {
			t.Errorf("step %d, signed certificates only: asked %d times, %v", i, asked.Load()-before, err)
		}
	}
}

// onNodeFS says that images have no filesystem of their own.
func onNodeFS(*config.EvictdConfiguration) (bool, error) { return false, nil }

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
