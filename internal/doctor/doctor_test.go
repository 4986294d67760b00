package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/confined"
	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/pkg/pressure"
)

// errPlanted is what a look fails with.
var errPlanted = errors.New("planted\nfault")

// expectation is what a finding must be: its state, and a part of what was found, of what follows
// and of what to do.
type expectation struct {
	state              State
	found, follows, do string
}

func (e expectation) check(t *testing.T, got Finding) {
	t.Helper()
	if got.State != e.state || !strings.Contains(got.Found, e.found) || !strings.Contains(got.Follows, e.follows) || !strings.Contains(got.Do, e.do) {
		t.Errorf("got %+v, want %+v", got, e)
	}
	wellFormed(t, got)
}

// wellFormed fails the test unless a finding says what it must, each in one line.
func wellFormed(t *testing.T, f Finding) {
	t.Helper()
	if f.Name == "" || f.Found == "" || strings.ContainsAny(f.Name+f.Found+f.Follows+f.Do, "\n\t") {
		t.Errorf("%+v: a text is missing or has several lines", f)
	}
	if said := f.Follows != "" && f.Do != ""; said == (f.State == OK) || !slices.Contains([]State{OK, Degraded, Missing, Unknown}, f.State) {
		t.Errorf("%+v: what follows and what to do belong to every state but ok", f)
	}
}

// working is a subject without a fault.
func working() *Subject {
	granted := func(context.Context) (bool, error) { return true, nil }
	return &Subject{
		Configuration: Configuration{File: "/evictd.yaml", Thresholds: []pressure.Threshold{{Signal: pressure.NodeFSAvailable, Hard: true, Quantity: pressure.Fraction(0.1)}}},
		Host: Host{
			Cgroups:  func() (kernelfile.Hierarchy, error) { return kernelfile.Hierarchy{Unified: true, PIDs: "/c"}, nil },
			Kubepods: func() (Pods, error) { return Pods{Group: "/kubepods.slice", Count: 2}, nil },
			Signal: func(pressure.Signal) Reading {
				return Reading{Observation: pressure.Observation{State: pressure.Known, Available: 1 << 30, Capacity: 4 << 30}}
			},
			WakeUps:     func() []pressure.WakeState { return []pressure.WakeState{{Source: pressure.WakeNode, Path: "/p"}} },
			Kubelet:     func() Kubelet { return Kubelet{Files: []string{"/k.yaml"}} },
			StateDir:    "/state",
			TryStateDir: func(string) error { return nil },
		},
		API: API{
			NodeName: "node-1",
			Server: func(context.Context) (Server, error) {
				return Server{Host: "https://api", Version: "v1.37.1", Date: noon, Now: noon}, nil
			},
			Node: func(context.Context) (Node, error) { return Node{Read: 4 << 30, Reported: 4 << 30}, nil },
			Account: func(context.Context) (Account, error) {
				return Account{Name: "system:serviceaccount:e:e", Service: true, Node: "node-1"}, nil
			},
			Rights:   []Right{{Name: "list pods", Without: "no pod is evicted", Allowed: granted}},
			OptIns:   []OptIn{{Field: "taintNode", With: "x", Without: "y", Grants: "z", Rights: []Right{{Name: "patch nodes", Allowed: granted}}}},
			Policies: []Policy{{Policy: confined.Policy{Name: "own-node", Without: "x"}, Read: func(context.Context) (string, error) { return "", nil }}},
			Stop:     func(context.Context) (Stop, error) { return Stop{ConfigMap: "e/stop"}, nil },
			Summary:  func(context.Context) (bool, error) { return false, nil },
		},
	}
}

// Every line is ok on a node in order, in the documented order, and none comes twice.
func TestExamineOfAWorkingNode(t *testing.T) {
	t.Parallel()
	findings := Examine(t.Context(), working())
	var names []string
	for _, f := range findings {
		wellFormed(t, f)
		if f.State != OK {
			t.Errorf("%+v", f)
		}
		names = append(names, f.Name)
	}
	want := []string{
		"configuration", "cgroups", "kubepods", "signal/memory.available", "signal/nodefs.available", "wake-up/Node", "kubelet-config",
		"state-dir", "api-server", "clock", "node", "token", "right/list pods", "opt-in/taintNode", "act/stop", "policy/own-node", "pod-disk/summary",
	}
	if !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
	if !Sound(findings) {
		t.Error("a node in order is not sound")
	}
}

// Without the API server the node is checked all the same. Each line of the API server is there and
// unknown, and no request is sent: each would have to time out.
func TestExamineWithoutAnAPIServer(t *testing.T) {
	t.Parallel()
	s, all := working(), Examine(t.Context(), working())
	s.API.Server = func(context.Context) (Server, error) { return Server{}, errPlanted }
	never := func(context.Context) (bool, error) { t.Error("a right was asked for"); return false, nil }
	s.API.Rights[0].Allowed, s.API.OptIns[0].Rights[0].Allowed = never, never
	findings := Examine(t.Context(), s)
	if Sound(findings) || len(findings) != len(all) {
		t.Fatalf("sound %v, %d findings, want %d", Sound(findings), len(findings), len(all))
	}
	server := slices.IndexFunc(findings, func(f Finding) bool { return f.Name == serverName })
	for i, f := range findings {
		wellFormed(t, f)
		want := OK
		switch {
		case i == server:
			want = Missing
		case i > server:
			want = Unknown
		}
		if f.Name != all[i].Name || f.State != want {
			t.Errorf("%s is %s, want %s and %s", f.Name, f.State, all[i].Name, want)
		}
	}
}

func TestSound(t *testing.T) {
	t.Parallel()
	for state, want := range map[State]bool{OK: true, Degraded: true, Missing: false, Unknown: false} {
		if got := Sound([]Finding{{State: OK}, {State: state}}); got != want {
			t.Errorf("with one that is %s: sound %v, want %v", state, got, want)
		}
	}
}
