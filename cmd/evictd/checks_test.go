package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
)

// ofServer makes the daemon's checks that ask the API server.
func (p *patient) ofServer() []checks.Result {
	p.t.Helper()
	f := &runFlags{config: p.config, nodeName: "node-1", hostRoot: p.root, kubeconfig: kubeconfigFor(p.t, p.api.url)}
	in, _ := f.inputs(config.Default(), &host{flags: f})
	return checks.Run(p.t.Context(), in, checks.Server)
}

// What the daemon finds out about its confinement, what it cannot tell, which is never "not confined", and
// that it writes nothing, whether the policies are there or not.
func TestConfinementAtTheStart(t *testing.T) {
	t.Parallel()
	const own, elsewhere = "/api/v1/namespaces/evictd/pods/evictd-doctor-no-pod/eviction", "/api/v1/namespaces/shop/pods/theirs/eviction"
	for name, c := range map[string]struct {
		breaks          func(*doctorAPI)
		confined, known bool
	}{
		"as shipped":            {func(*doctorAPI) {}, true, true},
		"no policy":             {func(a *doctorAPI) { a.policies = nil }, false, true},
		"one policy is missing": {func(a *doctorAPI) { a.lackPolicy("evictd-on-own-node") }, false, true},
		"no pod elsewhere":      {func(a *doctorAPI) { a.alone = true }, false, false},
		"a person's account":    {func(a *doctorAPI) { a.account = "admin" }, false, false},
		"no namespace":          {func(a *doctorAPI) { a.fails(own, http.StatusNotFound) }, false, false},
		"no API server":         {func(a *doctorAPI) { a.url = refusing() }, false, false},
		"the requests fail": {func(a *doctorAPI) {
			a.policies = nil
			for _, path := range []string{own, elsewhere, "/api/v1/nodes/node-1", "/api/v1/namespaces/evictd/events"} {
				a.fails(path, http.StatusServiceUnavailable)
			}
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPatient(t)
			c.breaks(p.api)
			results := p.ofServer()
			if confined, known := checks.Confined(results); confined != c.confined || known != c.known {
				t.Errorf("confined %v, known %v, want %v and %v: %+v", confined, known, c.confined, c.known, results)
			}
			if wrote := p.api.wrote(); len(wrote) > 0 {
				t.Errorf("the checks wrote %q", wrote)
			}
		})
	}
}

// What evictd follows and reports by itself while it runs is not checked at its start.
func TestChecksAtTheStartLeaveOutWhatIsFollowed(t *testing.T) {
	t.Parallel()
	for _, r := range newPatient(t).ofServer() {
		if r.Name == "act/stop" || r.State != checks.OK && r.Name != "pod-disk/summary" { // of a certificate of the test's own
			t.Errorf("%+v", r)
		}
	}
}

// Each check that is not ok is a line of the log, and what is ok is none.
func TestChecksThatAreNotOKAreLogged(t *testing.T) {
	t.Parallel()
	log := newJournal()
	d := builtDaemon(t, flagsFor(t, machine(t), refusing()), log)
	in, _ := d.flags.inputs(d.inForce.Load(), d.host)
	d.reportChecks(checks.Run(t.Context(), in, checks.Node))
	if !strings.Contains(log.String(), `"msg":"a check is not ok","check":"state-dir","state":"degraded"`) || strings.Contains(log.String(), `"check":"cgroups"`) {
		t.Errorf("log:\n%s", log)
	}
}
