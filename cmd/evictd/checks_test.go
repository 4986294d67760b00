package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/checks"
	"github.com/evictd/evictd/internal/config"
)

// ofServer makes the daemon's checks that ask the API server.
func (p *patient) ofServer() []checks.Result {
	p.t.Helper()
	f := &runFlags{config: p.config, nodeName: "node-1", hostRoot: p.root, kubeconfig: kubeconfigFor(p.t, p.api.url)}
	return checks.Run(p.t.Context(), f.inputs(config.Default(), &host{flags: f}), checks.Server)
}

// What evictd follows and reports by itself while it runs is not checked at its start.
func TestChecksAtTheStartLeaveOutWhatIsFollowed(t *testing.T) {
	t.Parallel()
	for _, r := range newPatient(t).ofServer() {
		if r.State != checks.OK && r.Name != "pod-disk/summary" { // of a certificate of the test's own
			t.Errorf("%+v", r)
		}
	}
}

// Each check that is not ok is a line of the log, and what is ok is none.
func TestChecksThatAreNotOKAreLogged(t *testing.T) {
	t.Parallel()
	log := newJournal()
	d := builtDaemon(t, flagsFor(t, machine(t), refusing()), log)
	d.check(t.Context(), checks.Node)
	if !strings.Contains(log.String(), `"msg":"a check is not ok","check":"state-dir","state":"degraded"`) || strings.Contains(log.String(), `"check":"cgroups"`) {
		t.Errorf("log:\n%s", log)
	}
	refused := errors.New("colour: unknown field")
	d.idle.Store(&refused)
	d.check(t.Context(), checks.Edit)
	if !strings.Contains(log.String(), `"check":"configuration","state":"missing","detail":"the configuration was refused at the start`) {
		t.Errorf("log of a file that is refused:\n%s", log)
	}
}
