package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/pkg/evict"
)

// kubeconfigFor names a server and a token.
func kubeconfigFor(t *testing.T, server string) string {
	t.Helper()
	return writeFile(t, "kubeconfig", fmt.Sprintf(kubeconfigHead+`
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {token: a-token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`, server))
}

// clientsFor are the clients of evictd with the flags.
func clientsFor(t *testing.T, flags *runFlags) *apiclient.Clients {
	t.Helper()
	clients, err := newClients(flags, "")
	must(t, err)
	return clients
}

// refusing is an address without a listener: no test that runs at the same time is given its port.
func refusing() string { return "http://127.0.0.1:1" }

// serving is a server until the end of the test.
func serving(t *testing.T, handler http.Handler) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// answering is an API server that returns the same status for every request.
func answering(t *testing.T, failure *apierrors.StatusError) string {
	t.Helper()
	return serving(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fail(w, failure) }))
}

// fail answers with an error of the API server.
func fail(w http.ResponseWriter, failure *apierrors.StatusError) {
	status := failure.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status) //nolint:errchkjson // of this file
}

// An error that keeps the node from being read includes its fix.
func TestFaultsOfTheAPIServerAreToldApart(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	selfSigned := httptest.NewUnstartedServer(http.NotFoundHandler())
	selfSigned.Config.ErrorLog = log.New(io.Discard, "", 0) // it would log the rejected certificate
	selfSigned.StartTLS()
	t.Cleanup(selfSigned.Close)
	for name, test := range map[string]struct {
		server string
		ends   bool // evictd
		want   string
	}{
		"the port is closed": {refusing(), false, "connection refused; check that the API server runs"},
		"another authority":  {selfSigned.URL, false, "certificate signed by unknown authority; check that"},
		"401":                {answering(t, apierrors.NewUnauthorized("Unauthorized")), false, "Unauthorized; check that"},
		"403":                {answering(t, apierrors.NewForbidden(nodes, "node-1", nil)), false, `nodes "node-1" is forbidden`},
		"404":                {answering(t, apierrors.NewNotFound(nodes, "node-1")), true, "the API server has no such node; check --node-name"},
		"a proxy's 404":      {serving(t, http.NotFoundHandler()), false, "the server could not find the requested resource"},
		"500":                {answering(t, apierrors.NewInternalError(context.Canceled)), false, "Internal error occurred"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := getNode(t.Context(), clientsFor(t, &runFlags{kubeconfig: kubeconfigFor(t, test.server)}), "node-1")
			said := fmt.Sprint(err)
			if !strings.HasPrefix(said, "reading node node-1: ") || !strings.Contains(said, test.want) || evict.IsNotFound(err) != test.ends {
				t.Errorf("%v, which ends evictd: %v", err, evict.IsNotFound(err))
			}
		})
	}
}
