package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/checks"
)

// Each check that is not ok is a line of the log, and what is ok is none. What evictd follows and reports by itself while
// it runs, as that no pod has a cgroup yet, is not checked.
func TestChecksThatAreNotOKAreLogged(t *testing.T) {
	t.Parallel()
	log := newJournal()
	d := builtDaemon(t, flagsFor(t, machine(t), refusing()), log)
	d.check(t.Context(), checks.Node|checks.Server)
	var said []string
	line := regexp.MustCompile(`"msg":"a check is not ok","check":"([^"]*)","state":"(\w+)"`)
	for _, found := range line.FindAllStringSubmatch(log.String(), -1) {
		said = append(said, found[1]+" "+found[2])
	}
	if !slices.Equal(said, []string{"kubelet-config degraded", "state-dir degraded", "api-server missing"}) {
		t.Errorf("%q, log:\n%s", said, log)
	}
	refused := errors.New("colour: unknown field")
	d.idle.Store(&refused)
	d.check(t.Context(), checks.Edit)
	if !strings.Contains(log.String(), `"check":"configuration","state":"missing","detail":"the configuration was refused at the start`) {
		t.Errorf("log of a file that is refused:\n%s", log)
	}
}
