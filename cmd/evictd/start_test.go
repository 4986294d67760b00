package main

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/status"
)

const nonsense = head + "nonsense: 1\n"

// With a refused file evictd idles, live and not ready, until the file is valid. A refused edit afterwards fails nothing.
func TestFaultStartWithARefusedFileIdles(t *testing.T) {
	t.Parallel()
	api := newDoctorAPI(t)
	api.policies = nil // of another component's Events, by which the doctor tries them
	api.fails("/api/v1/pods", http.StatusServiceUnavailable)
	flags := flagsFor(t, machine(t), api.url)
	write := func(text string) {
		must(t, os.WriteFile(flags.config, []byte(text), 0o600))
	}
	write(nonsense)
	e := launch(t, flags)
	e.await("configuration refused")
	e.await("evictd does not act")
	if code, _ := e.page("/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	for _, page := range []string{"/readyz", "/debug/status"} {
		code, text := e.page(page)
		if code != http.StatusServiceUnavailable || !strings.Contains(text, insteadIdle) || !strings.Contains(text, "nonsense") {
			t.Errorf("%s: %d %s", page, code, text)
		}
	}
	if code, text := e.page("/"); code != http.StatusOK || text != "The pages:\n/debug/status\n/livez\n/metrics\n/readyz\n" {
		t.Errorf("/: %d %s", code, text)
	}
	if _, text := e.page("/metrics"); !strings.Contains(text, "evictd_config_last_reload_successful 0") || !strings.Contains(text, "evictd_dry_run 1") {
		t.Errorf("/metrics:\n%s", text)
	}
	write(memoryOnly)
	e.await("configuration applied")
	code, page := e.page("/debug/status")
	if d, err := status.Read(strings.NewReader(page)); code != http.StatusOK || err != nil || d.NodeName != "node-1" || d.Ranking == nil {
		t.Errorf("/debug/status: %d, %v: %s", code, err, page)
	}
	write(nonsense)
	e.await("the one before stays in force")
	if code, text := e.page("/debug/status"); code != http.StatusOK || !strings.Contains(text, `"configurationRefused": "invalid configuration: `) {
		t.Errorf("/debug/status: %d %s", code, text)
	}
	if _, text := e.page("/readyz"); strings.Contains(text, "refused") {
		t.Errorf("/readyz: %s", text)
	}
	e.stop()
	e.ends(exitFine)
	refused := slices.DeleteFunc(api.wrote(), func(wrote string) bool {
		return !strings.Contains(wrote, `"reason":"ConfigurationRefused"`)
	})
	if len(refused) != 2 || !strings.Contains(refused[0], `"kind":"Node"`) {
		t.Errorf("Events %v", api.wrote())
	}
}

// The document names pods: it is where --debug-bind-address says, by default on loopback alone, or nowhere.
func TestDocumentIsServedToTheNodeAlone(t *testing.T) {
	t.Parallel()
	if !strings.HasPrefix(debugAddress, "127.0.0.1:") {
		t.Errorf("by default the document is at %s", debugAddress)
	}
	const pages, document, forAll = "The pages:\n", "/debug/status\n", "/livez\n/metrics\n/readyz\n"
	for debug, want := range map[string][]string{
		"0": {pages + forAll}, "": {pages + forAll}, "127.0.0.2:0": {pages + forAll, pages + document},
		"127.0.0.1:0": {pages + document + forAll}, // as --http-bind-address
	} {
		flags := flagsFor(t, machine(t), refusing())
		flags.debug = debug
		d := builtDaemon(t, flags, newJournal())
		var got []string
		for _, server := range d.servers {
			inBackground(t, server.Run)
			_, text := get(t, server.Addr(), "/")
			got = append(got, text)
		}
		if !slices.Equal(got, want) || len(want) == 2 && !strings.HasPrefix(d.servers[1].Addr(), "127.0.0.2:") {
			t.Errorf("%s: %q, want %q", debug, got, want)
		}
	}
}
