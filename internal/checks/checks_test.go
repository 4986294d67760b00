package checks

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

// errPlanted is what a look fails with.
var errPlanted = errors.New("planted\nfault")

// want is what a result must be: its state, and a part of what was found, of what follows and of what to do.
type want struct {
	state              State
	found, follows, do string
}

func (w want) check(t *testing.T, got Result) {
	t.Helper()
	if got.State != w.state || !strings.Contains(got.Found, w.found) || !strings.Contains(got.Follows, w.follows) || !strings.Contains(got.Do, w.do) {
		t.Errorf("got %+v, want %+v", got, w)
	}
	wellFormed(t, got)
}

// wellFormed fails the test unless a result says what it must, each in one line.
func wellFormed(t *testing.T, r Result) {
	t.Helper()
	if r.Found == "" || strings.ContainsAny(r.Name+r.Found+r.Follows+r.Do, "\n\t") {
		t.Errorf("%+v: a text is missing or has several lines", r)
	}
	if said := r.Follows != "" && r.Do != ""; said == (r.State == OK) || !slices.Contains([]State{OK, Degraded, Missing, Unknown}, r.State) {
		t.Errorf("%+v: what follows and what to do belong to every state but ok", r)
	}
}

// working are inputs without a fault, for a server that knows evictd and grants each right.
func working(t *testing.T, handler http.HandlerFunc) *Inputs {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	made, err := apiclient.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return &Inputs{
		NodeName: "node-1", Namespace: "evictd", StateDir: t.TempDir(), File: "/evictd.yaml", Configuration: config.Default(),
		Disk:    func(context.Context) (bool, error) { return false, nil },
		API:     API{Send: made.Evicting.Send, URL: server.URL},
		Kubelet: &kubeletconfig.Configuration{Files: []string{"/k.yaml"}},
	}
}

func never(t *testing.T) http.HandlerFunc {
	t.Helper()
	return func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request was sent: %s %s", r.Method, r.URL.Path)
	}
}

// Without the API server one line says so, and only one request is sent: each other would have to time out.
func TestWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	in := working(t, never(t))
	in.API.Err = errPlanted
	results := Run(t.Context(), in, Server)
	if len(results) != 1 || results[0].Name != "api-server" || results[0].State != Missing {
		t.Fatalf("%d lines: %+v", len(results), results)
	}
	wellFormed(t, results[0])
}

// An edit of the configuration is checked by what it may change.
func TestChecksOfAnEdit(t *testing.T) {
	t.Parallel()
	in := working(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status": {"allowed": true}}`)) })
	in.Configuration.TaintNode, in.Configuration.DisruptionBudgets, in.Configuration.Disk.Source = config.TaintSoft, config.BudgetsBestEffort, config.DiskNode
	var names []string
	for _, r := range Run(t.Context(), in, Edit) {
		want{state: OK}.check(t, r)
		names = append(names, r.Name)
	}
	if diff := cmp.Diff([]string{"configuration", "kubelet-config", "pod-disk/node", "right/delete pods", "right/get poddisruptionbudgets.policy", "right/patch nodes"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestSound(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]bool{OK: true, Degraded: true, Missing: false, Unknown: false} {
		if got := Sound([]Result{{State: OK}, {State: state}}); got != want {
			t.Errorf("with one that is %s: sound %v, want %v", state, got, want)
		}
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
	in := working(t, never(t))
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
	if err != nil {
		t.Fatal(err)
	}
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

func TestConfiguration(t *testing.T) {
	t.Parallel()
	acts := config.Default()
	acts.DryRun = false
	odd := config.Default()
	odd.Protect.Namespaces = nil
	for name, c := range map[string]struct {
		given Inputs
		want  want
	}{
		"acts":     {Inputs{File: "/e.yaml", Configuration: acts}, want{OK, "evicts pods", "", ""}},
		"dry run":  {Inputs{File: "/e.yaml", Configuration: config.Default()}, want{OK, "dry run", "", ""}},
		"refused":  {Inputs{File: "/e.yaml", Refused: errPlanted, Configuration: acts}, want{Missing, "planted; fault", "evicts no pod", "evictd config validate"}},
		"no file":  {Inputs{Configuration: acts}, want{Degraded, "no file", "default configuration", "--config"}},
		"warnings": {Inputs{File: "/e.yaml", Configuration: odd}, want{Degraded, "/e.yaml is valid: protect.namespaces", "not meant", "change"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, configuration(t.Context(), &c.given))
		})
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`{apiVersion: evictd.dev/v1alpha1, kind: EvictdConfiguration,
  evictionHard: {imagefs.available: 25%, pid.available: "100"}, evictionSoft: {imagefs.available: 3Gi}, evictionSoftGracePeriod: {imagefs.available: 1m}}`))
	if err != nil {
		t.Fatal(err)
	}
	known := pressure.Observation{State: pressure.Known, Available: 3 << 30, Capacity: 8 << 30, Device: 42}
	in := &Inputs{Configuration: c, Directories: map[pressure.Signal]string{pressure.ImageFSAvailable: "/var/lib/containerd"}}
	for _, r := range []struct {
		signal pressure.Signal
		given  pressure.Observation
		want   want
	}{
		{
			pressure.ImageFSAvailable, known,
			want{OK, "3.0Gi of 8.0Gi on the filesystem of /var/lib/containerd (device 42); hard threshold 2.0Gi; soft threshold 3.0Gi", "", ""},
		},
		{pressure.ContainerFSAvailable, known, want{OK, "3.0Gi of 8.0Gi", "", ""}},
		{pressure.PIDAvailable, pressure.Observation{State: pressure.Unknown, Err: errPlanted}, want{Missing, "planted", "evicts no pod", "docs/signals.md"}},
		{
			pressure.NodeFSInodesFree,
			pressure.Observation{State: pressure.Absent, Err: errPlanted},
			want{Degraded, "no such signal: planted", "never met", "remove"},
		},
		{pressure.AllocatableMemoryAvailable, pressure.Observation{State: pressure.Absent}, want{OK, "not in force: it could not be read", "", ""}},
	} {
		in.Sample.Observations[r.signal] = r.given
		r.want.check(t, in.reading(r.signal))
	}
}

func TestWakeUps(t *testing.T) {
	t.Parallel()
	want{OK, "/p, with a window of 2s", "", ""}.check(t, wakeUp(&pressure.WakeState{Source: pressure.WakeNode, Path: "/p", Window: 2 * time.Second}))
	want{Degraded, "planted", "pacing", "docs/signals.md"}.check(t, wakeUp(&pressure.WakeState{Source: pressure.WakeKubepods, Err: errPlanted}))
}

func TestKubeletsFile(t *testing.T) {
	t.Parallel()
	read := &kubeletconfig.Configuration{Files: []string{"/k.yaml"}}
	for name, c := range map[string]struct {
		given Inputs
		want  want
	}{
		"read":   {Inputs{Kubelet: read}, want{OK, "/k.yaml", "", ""}},
		"absent": {Inputs{NoKubelet: errPlanted}, want{Degraded, "planted", "not known", "kubelet-config.patch.yaml"}},
		"not there although it is named": {
			Inputs{NoKubelet: errPlanted, KubeletNamed: true},
			want{Missing, "planted", "not known", "kubelet-config.patch.yaml"},
		},
		"not understood": {
			Inputs{Kubelet: &kubeletconfig.Configuration{Files: read.Files, Unread: []string{"evictionHard[x]: is no signal"}}},
			want{Degraded, "/k.yaml: evictionHard[x]", "left out", "understands"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, kubeletFile(t.Context(), &c.given))
		})
	}
}

func TestKubeletsThresholds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given kubeletconfig.Finding
		want  want
	}{
		"evictd first":            {kubeletconfig.Finding{}, want{OK, "evictd acts before the kubelet", "", ""}},
		"the kubelet first":       {kubeletconfig.Finding{First: true, Detail: "one"}, want{Missing, "one", "before evictd", "threshold"}},
		"the kubelet maybe first": {kubeletconfig.Finding{Maybe: true, Detail: "one"}, want{Degraded, "one", "may evict", "threshold"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, kubeletThresholds(&c.given))
		})
	}
}

func TestPodDisk(t *testing.T) {
	t.Parallel()
	without, err := config.Parse([]byte(`{apiVersion: evictd.dev/v1alpha1, kind: EvictdConfiguration, evictionHard: {memory.available: 5%,
  nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		fault error
		on    *config.EvictdConfiguration
		want  State
	}{
		"answers":                  {nil, config.Default(), OK},
		"fails":                    {errPlanted, config.Default(), Missing},
		"fails without need of it": {errPlanted, without, Degraded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &Inputs{Configuration: c.on, Disk: func(context.Context) (bool, error) { return false, c.fault }}
			want{state: c.want}.check(t, podDisk(t.Context(), in))
		})
	}
	in := &Inputs{Configuration: without, Disk: func(context.Context) (bool, error) { return true, nil }}
	want{Degraded, "does not see", "read of nodefs", "mount"}.check(t, podDisk(t.Context(), in))
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
