package doctor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/confined"
	"github.com/evictd/evictd/pkg/pressure"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer Server
		fault  error
		server expectation
		clock  expectation
	}{
		"answers": {
			Server{Host: "https://api", Version: "v1.37.1", Date: noon, Now: noon.Add(5 * time.Second)},
			nil,
			expectation{OK, "https://api answers, Kubernetes v1.37.1", "", ""},
			expectation{OK, "within 5s", "", ""},
		},
		"the node's clock is ahead": {
			Server{Host: "h", Version: "v", Date: noon, Now: noon.Add(time.Minute)},
			nil,
			expectation{OK, "", "", ""},
			expectation{Degraded, "1m0s ahead of", "tokens", "NTP"},
		},
		"the node's clock is behind": {
			Server{Host: "h", Version: "v", Date: noon, Now: noon.Add(-time.Minute)},
			nil,
			expectation{OK, "", "", ""},
			expectation{Degraded, "1m0s behind", "tokens", "NTP"},
		},
		"without a date": {
			Server{Host: "h", Version: "v", Now: noon},
			nil,
			expectation{OK, "", "", ""},
			expectation{Unknown, "no date", "tokens", "clocks"},
		},
		"no answer": {
			Server{},
			errPlanted,
			expectation{Missing, "planted", "no pod is evicted", "credentials"},
			expectation{Unknown, "not checked", "", serverName},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := server(t.Context(), &API{Server: func(context.Context) (Server, error) { return c.answer, c.fault }})
			c.server.check(t, got[0])
			c.clock.check(t, got[1])
		})
	}
}

func TestNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given Node
		fault error
		want  expectation
	}{
		"this machine":    {Node{Read: 8 << 20, Reported: 8 << 20}, nil, expectation{OK, "8 MiB", "", ""}},
		"another machine": {Node{Read: 8 << 20, Reported: 9 << 20, Differ: true}, nil, expectation{Missing, "8 MiB, and the Node reports 9 MiB", "another machine", "--node-name"}},
		"not compared":    {Node{Err: errPlanted}, nil, expectation{Unknown, "planted", "another machine", "memory.available"}},
		"no such node":    {Node{}, errPlanted, expectation{Missing, "planted", "no pod for disk", "--node-name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, node(t.Context(), func(context.Context) (Node, error) { return c.given, c.fault }))
		})
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given Account
		fault error
		want  expectation
	}{
		"bound to a pod here": {Account{"sa", true, "node-1"}, nil, expectation{OK, "sa on node node-1", "", ""}},
		"of another node":     {Account{"sa", true, "node-2"}, nil, expectation{Missing, "names node node-2", "every eviction", "--node-name"}},
		"without a node":      {Account{"sa", true, ""}, nil, expectation{Missing, "names no node", "every eviction", "1.30"}},
		"of a person":         {Account{"admin", false, ""}, nil, expectation{Degraded, "those of admin", "about that user", "kubectl exec"}},
		"not known":           {Account{}, errPlanted, expectation{Unknown, "planted", "may refuse", "SelfSubjectReview"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, token(t.Context(), func(context.Context) (Account, error) { return c.given, c.fault }, "node-1"))
		})
	}
}

// asking answers for a right.
func asking(name string, allowed bool, fault error) Right {
	return Right{Name: name, Without: "no pod is evicted", Allowed: func(context.Context) (bool, error) { return allowed, fault }}
}

func TestRights(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		given Right
		want  expectation
	}{
		{asking("list pods", true, nil), expectation{OK, "granted", "", ""}},
		{asking("watch pods", false, nil), expectation{Missing, "lacks", "no pod is evicted", "ClusterRole"}},
		{asking("get nodes", false, errPlanted), expectation{Unknown, "planted", "if it is missing, no pod is evicted", "again"}},
	} {
		got := right(t.Context(), &c.given)
		c.want.check(t, got)
		if want := "right/" + c.given.Name; got.Name != want {
			t.Errorf("name %q, want %q", got.Name, want)
		}
	}
}

func TestOptIns(t *testing.T) {
	t.Parallel()
	opt := func(rights ...Right) *OptIn {
		return &OptIn{Field: "taintNode", With: "the node is tainted", Without: "the node is not tainted", Grants: "deploy/overlays/taint", Rights: rights}
	}
	for _, c := range []struct {
		given *OptIn
		want  expectation
	}{
		{opt(asking("get nodes", true, nil), asking("patch nodes", true, nil)), expectation{OK, "granted: the node is tainted", "", ""}},
		{
			opt(asking("get nodes", false, nil), asking("patch nodes", false, nil)),
			expectation{Missing, "may not get nodes, nor patch nodes", "the node is not tainted", "deploy/overlays/taint"},
		},
		{
			opt(asking("get nodes", true, nil), asking("patch nodes", false, errPlanted)),
			expectation{Unknown, "planted", "if a right is missing, the node is not tainted", "again"},
		},
	} {
		c.want.check(t, optIn(t.Context(), c.given))
	}
}

// A policy that evictd may not read is tried; where it can be neither read nor tried, it is never
// ok.
func TestPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault   string
		unread  error
		answer  confined.Answer
		untried error
		want    expectation
	}{
		"read":                    {"", nil, confined.Accepted, errPlanted, expectation{OK, "binding denies", "", ""}},
		"read, with a fault":      {"it only warns", nil, confined.RefusedByPolicy, nil, expectation{Missing, "it only warns", "can evict", "daemonset.yaml"}},
		"tried":                   {"", errPlanted, confined.RefusedByPolicy, nil, expectation{OK, "in force", "", ""}},
		"refused by RBAC already": {"", errPlanted, confined.RefusedByRBAC, nil, expectation{OK, "not needed", "", ""}},
		"tried, and accepted":     {"", errPlanted, confined.Accepted, nil, expectation{Missing, "not in force", "can evict", "daemonset.yaml"}},
		"nothing to try it with":  {"", errPlanted, confined.Accepted, fmt.Errorf("%w: one node", confined.ErrNothingToTry), expectation{Degraded, "one node", "if it is missing", "kubectl get"}},
		"neither read nor tried":  {"", errPlanted, confined.Accepted, errPlanted, expectation{Unknown, "not read: planted; fault; not tried: planted; fault", "if it is missing", "kubectl get"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.want.check(t, policy(t.Context(), &Policy{
				Policy: confined.Policy{
					Name: "own-node", Without: "a token can evict everywhere",
					Try: func(context.Context) (confined.Answer, error) { return c.answer, c.untried },
				},
				Read: func(context.Context) (string, error) { return c.fault, c.unread },
			}))
		})
	}
}

func TestPodDisk(t *testing.T) {
	t.Parallel()
	disk := []pressure.Threshold{{Signal: pressure.NodeFSAvailable}}
	for name, c := range map[string]struct {
		fault      error
		thresholds []pressure.Threshold
		want       State
	}{
		"answers":                     {nil, disk, OK},
		"fails":                       {errPlanted, disk, Missing},
		"fails without need of it":    {errPlanted, []pressure.Threshold{{Signal: pressure.MemoryAvailable}}, Degraded},
		"fails without any threshold": {errPlanted, nil, Degraded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			byKubelet := summary(t.Context(), func(context.Context) (bool, error) { return false, c.fault }, c.thresholds)
			byFiles := podFiles(func() error { return c.fault }, c.thresholds)
			for _, got := range []Finding{byKubelet[0], byFiles[0]} {
				expectation{state: c.want}.check(t, got)
			}
		})
	}
	got := summary(t.Context(), func(context.Context) (bool, error) { return true, nil }, disk)
	expectation{Degraded, "does not see", "read of nodefs", "mount"}.check(t, got[0])
	if got := append(summary(t.Context(), nil, disk), podFiles(nil, disk)...); len(got) > 0 {
		t.Errorf("a source that is not configured has a line: %+v", got)
	}
}
