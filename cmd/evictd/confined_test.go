package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/confined"
)

// The daemon's check of the policies: what it finds, what it cannot tell, and that it writes nothing,
// whether the policies are there or not.
func TestCheckConfinement(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks func(*doctorAPI)
		state  confined.State
		detail string
	}{
		"as shipped":            {func(*doctorAPI) {}, confined.Confined, ""},
		"no policy":             {func(a *doctorAPI) { a.policies = nil }, confined.Unconfined, "evictd-evicts-on-own-node does not refuse what it must: evictd's token can evict the pods of every node; evictd-on-own-node"},
		"one policy is missing": {func(a *doctorAPI) { a.lackPolicy("evictd-on-own-node") }, confined.Unconfined, "without naming a UID"},
		"no pod elsewhere":      {func(a *doctorAPI) { a.alone = true }, confined.Unknown, "no pod is on another node"},
		"a person's account":    {func(a *doctorAPI) { a.account = "admin" }, confined.Unknown, "admin is no service account"},
		"no namespace": {
			func(a *doctorAPI) {
				a.fails("/api/v1/namespaces/evictd/pods/"+noPod+"/eviction", http.StatusNotFound)
			},
			confined.Unknown, "evictd-on-own-node could not be tried",
		},
		"the eviction fails": {
			func(a *doctorAPI) {
				a.policies = nil
				a.fails("/api/v1/namespaces/evictd/pods/"+noPod+"/eviction", http.StatusServiceUnavailable)
				a.fails("/api/v1/namespaces/shop/pods/theirs/eviction", http.StatusServiceUnavailable)
				a.fails("/api/v1/nodes/node-1", http.StatusServiceUnavailable)
				a.fails("/api/v1/namespaces/evictd/events", http.StatusServiceUnavailable)
			},
			confined.Unknown, "evictd-evicts-on-own-node could not be tried",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newDoctorAPI(t)
			c.breaks(api)
			d := &daemon{flags: &runFlags{whereFlags: whereFlags{nodeName: "node-1", kubeconfig: kubeconfigFor(t, api.url)}}}
			got := d.checkConfinement(t.Context())
			if got.State != c.state || !strings.Contains(got.Detail, c.detail) || strings.Contains(got.Detail, "\n") {
				t.Errorf("%+v, want state %d and %q", got, c.state, c.detail)
			}
			if wrote := api.wrote(); len(wrote) > 0 {
				t.Errorf("the check wrote %q", wrote)
			}
		})
	}
}

// Without an API server it is not known, which is never "not confined".
func TestCheckConfinementWithoutAnAPIServer(t *testing.T) {
	d := &daemon{flags: &runFlags{whereFlags: whereFlags{nodeName: "node-1", kubeconfig: kubeconfigFor(t, refusing())}}}
	if got := d.checkConfinement(t.Context()); got.State != confined.Unknown || !strings.Contains(got.Detail, "refused") {
		t.Errorf("%+v", got)
	}
}
