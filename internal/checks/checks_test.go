package checks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/pressure"
)

// errPlanted is what a look fails with.
var errPlanted = errors.New("planted\nfault")

// wellFormed fails the test unless a result says what it must, each in one line.
func wellFormed(t *testing.T, r Result) {
	t.Helper()
	if r.Found == "" || strings.ContainsAny(r.Name+r.Found+r.Follows+r.Do, "\n\t") {
		t.Errorf("%+v: a text is missing or has several lines", r)
	}
	if said := r.Follows != "" && r.Do != ""; said == (r.State == OK) {
		t.Errorf("%+v: what follows and what to do belong to every state but ok", r)
	}
}

// working are inputs without a fault, for a server that knows evictd and grants each right.
func working(t *testing.T, handler http.HandlerFunc) *Inputs {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	made, err := apiclient.New(&rest.Config{Host: server.URL})
	must.Succeed(t, err)
	return &Inputs{
		NodeName: "node-1", Namespace: "evictd", StateDir: t.TempDir(), File: "/evictd.yaml", Configuration: config.Default(),
		Disk:    func(context.Context) (bool, error) { return false, nil },
		API:     API{Send: made.Evicting.Send, URL: server.URL},
		Kubelet: &kubeletconfig.Configuration{Files: []string{"/k.yaml"}},
	}
}

// An edit of the configuration is checked by what it may change.
func TestChecksOfAnEdit(t *testing.T) {
	t.Parallel()
	in := working(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status": {"allowed": true}}`)) })
	in.Configuration.TaintNode, in.Configuration.DisruptionBudgets, in.Configuration.Disk.Source = config.TaintSoft, config.BudgetsBestEffort, config.DiskNode
	var names []string
	for _, r := range Run(t.Context(), in, Edit) {
		wellFormed(t, r)
		names = append(names, r.Name+" "+string(r.State))
	}
	if diff := cmp.Diff([]string{
		"configuration ok", "kubelet-config ok", "pod-disk/node ok",
		"right/delete pods ok", "right/get poddisruptionbudgets.policy ok", "right/patch nodes ok",
	}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

// One policy that does not refuse is enough to know; that evictd is confined takes all of them.
func TestConfined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states          []State
		confined, known bool
	}{
		{nil, false, false},
		{[]State{OK, OK}, true, true},
		{[]State{OK, Missing}, false, true},
		{[]State{Unknown, Missing}, false, true},
		{[]State{OK, Unknown}, false, false},
		{[]State{Degraded, OK}, false, false},
	} {
		results := []Result{{Name: "token", State: Missing}}
		for _, state := range c.states {
			results = append(results, Result{Name: "policy/x", State: state})
		}
		if confined, known := Confined(results); confined != c.confined || known != c.known {
			t.Errorf("%v: confined %v, known %v", c.states, confined, known)
		}
	}
}

// docs/cli.md has a row for each check, and for no other.
func TestThePageListsTheChecks(t *testing.T) {
	t.Parallel()
	in := working(t, http.NotFound)
	in.Configuration.TaintNode = config.TaintHard
	in.Signals = []pressure.Signal{pressure.MemoryAvailable}
	in.Wakes = []pressure.WakeState{{Source: pressure.WakeNode}}
	in.Compared = []kubeletconfig.Finding{{Signal: pressure.MemoryAvailable}}
	families := map[string]bool{}
	for _, c := range list(in) {
		family, _, _ := strings.Cut(c.name, "/")
		families[family] = true
	}
	text, err := os.ReadFile("../../docs/cli.md")
	must.Succeed(t, err)
	documented := map[string]bool{}
	_, section, _ := strings.Cut(string(text), "## The checks")
	section, _, _ = strings.Cut(section, "\n##")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)[/`]").FindAllStringSubmatch(section, -1) {
		documented[row[1]] = true
	}
	if diff := cmp.Diff(families, documented); diff != "" {
		t.Errorf("docs/cli.md (-list +page):\n%s", diff)
	}
}

// parsed is a configuration with these fields.
func parsed(t *testing.T, fields string) *config.EvictdConfiguration {
	t.Helper()
	c, err := config.Parse([]byte("{apiVersion: evictd.dev/v1alpha1, kind: EvictdConfiguration, " + fields + "}"))
	must.Succeed(t, err)
	return c
}

// TestResults: testdata/results.golden has what each check of the node says of each finding.
func TestResults(t *testing.T) {
	t.Parallel()
	const noDisk = "nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%"
	const images = "evictionSoft: {imagefs.available: 3Gi}, evictionSoftGracePeriod: {imagefs.available: 1m}"
	known := pressure.Observation{State: pressure.Known, Available: 3 << 30, Capacity: 8 << 30, Device: 42}
	absent := pressure.Observation{State: pressure.Absent}
	unread := &kubeletconfig.Configuration{Files: []string{"/k.yaml"}, Unread: []string{"evictionHard[x]: is no signal"}}

	ctx, out := t.Context(), strings.Builder{}
	says := func(name string, r Result) {
		wellFormed(t, r)
		fmt.Fprintf(&out, "%s: %s\n  %s\n", name, r.State, r.Found)
		if r.State != OK {
			fmt.Fprintf(&out, "  then: %s\n  do: %s\n", r.Follows, r.Do)
		}
	}
	configured := func(name, fields string, refused error) {
		says(name, configuration(ctx, &Inputs{File: "/e.yaml", Refused: refused, Configuration: parsed(t, fields)}))
	}
	configured("it acts", "dryRun: false", nil)
	configured("dry run", "dryRun: true", nil)
	configured("a refused file", "dryRun: false", errPlanted)
	configured("warnings", "protect: {namespaces: []}", nil)
	says("no file", configuration(ctx, &Inputs{Configuration: config.Default()}))

	signal := func(name string, signal pressure.Signal, seen pressure.Observation) {
		in := &Inputs{Configuration: parsed(t, "evictionHard: {imagefs.available: 25%}, "+images)}
		in.Directories = map[pressure.Signal]string{pressure.ImageFSAvailable: "/var/lib/containerd"}
		in.Sample.Observations[signal] = seen
		says(name, in.reading(signal))
	}
	signal("a filesystem", pressure.ImageFSAvailable, known)
	signal("another without thresholds", pressure.ContainerFSAvailable, known)
	signal("a signal that cannot be read", pressure.PIDAvailable, pressure.Observation{Err: errPlanted})
	signal("one that is not there", pressure.NodeFSInodesFree, pressure.Observation{State: pressure.Absent, Err: errPlanted})
	signal("one that need not be there", pressure.AllocatableMemoryAvailable, absent)

	says("a wake-up", wakeUp(&pressure.WakeState{Path: "/p", Window: 2 * time.Second}))
	says("none", wakeUp(&pressure.WakeState{Err: errPlanted}))

	says("the kubelet's file", kubeletFile(ctx, &Inputs{Kubelet: &kubeletconfig.Configuration{Files: []string{"/k.yaml"}}}))
	says("it is absent", kubeletFile(ctx, &Inputs{NoKubelet: errPlanted}))
	says("it is absent although it is named", kubeletFile(ctx, &Inputs{NoKubelet: errPlanted, KubeletNamed: true}))
	says("it is not understood", kubeletFile(ctx, &Inputs{Kubelet: unread}))
	says("evictd first", kubeletThresholds(&kubeletconfig.Finding{}))
	says("the kubelet first", kubeletThresholds(&kubeletconfig.Finding{First: true, Detail: "how"}))
	says("the kubelet maybe first", kubeletThresholds(&kubeletconfig.Finding{Maybe: true, Detail: "how"}))

	disk := func(name, fields string, unseen bool, err error) {
		asked := func(context.Context) (bool, error) { return unseen, err }
		says(name, podDisk(ctx, &Inputs{Configuration: parsed(t, fields), Disk: asked}))
	}
	disk("the disk's source", "", false, nil)
	disk("it fails", "", false, errPlanted)
	disk("it fails without need of it", "evictionHard: {"+noDisk+"}", false, errPlanted)
	disk("images are elsewhere", "", true, nil)
	golden.Compare(t, "testdata/results.golden", out.String(), os.Getenv("UPDATE_GOLDEN") == "1", "UPDATE_GOLDEN=1")
}

// What is not the API server's own answer proves nothing: a proxy that finds no page knows no pod.
func TestForeignAnswersAreNoProof(t *testing.T) {
	t.Parallel()
	in := working(t, http.NotFound)
	in.API.who = account{name: "system:serviceaccount:evictd:evictd"}
	for _, p := range policies(in) {
		if got := p.check(t.Context(), in); got.State != Unknown {
			t.Errorf("%s: %+v", p.name, got)
		}
	}
}
