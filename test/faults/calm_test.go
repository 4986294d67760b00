package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/fleet"
)

// The agents of `make bench-agents` send what the shipped program sends when it starts: otherwise
// the benchmark would measure something else. The audit log, which is all tests', has the requests of both.
// Evictd's checks come later and are not part of either.
func TestCalmAgentAsksAsEvictdDoes(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	w.Ship(evictdtest.Rights())
	calm, err := fleet.NewCalm(t.Context(), fleet.CalmOptions{Config: evictdtest.Unlimited(), Dir: t.TempDir(), Nodes: 1, PodsPerNode: 3})
	w.Must(err)
	w.Undo(func(ctx context.Context) { w.Must(calm.Remove(ctx)) })
	w.Must(calm.Admit(t.Context()))
	w.Must(calm.Connect(t.Context(), 0, 1))
	t.Cleanup(func() { w.Must(calm.Disconnect(context.WithoutCancel(t.Context()))) })
	config := evictdtest.Unlimited()
	evictdtest.Start(t, evictdtest.Options{
		Host: evictdtest.NewHost(t), Node: fleet.NodeName(0), Server: strings.TrimPrefix(config.Host, "https://"), CA: config.CAData,
		TokenFile: calm.TokenFile(0), Settings: evictdtest.Thresholds + evictdtest.Lenient,
	})
	var fleets, shipped map[string]int
	t.Cleanup(func() { t.Logf("the fleet's agent: %v\nevictd: %v", fleets, shipped) })
	w.Until("both have sent the same", func(context.Context) bool {
		fleets, shipped = sentFrom(t, fleet.NodeName(0))
		return len(shipped) > 0 && maps.Equal(fleets, shipped)
	})
	watched := 0
	for request, n := range shipped {
		if strings.HasPrefix(request, "watch ") && strings.Contains(request, "fieldSelector=spec.nodeName") {
			watched += n
		}
	}
	if watched != 1 {
		t.Errorf("%d watches of the node's pods were opened, want 1", watched)
	}
}

// sentFrom returns how often each request was sent with a token of a node, by the fleet's agents
// and by evictd itself.
func sentFrom(t *testing.T, node string) (fleets, shipped map[string]int) {
	t.Helper()
	text, err := os.ReadFile(evictdtest.Cluster().AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	fleets, shipped = map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		var event struct {
			Stage      string `json:"stage"`
			Verb       string `json:"verb"`
			RequestURI string `json:"requestURI"`
			UserAgent  string `json:"userAgent"`
			User       struct {
				Extra map[string][]string `json:"extra"`
			} `json:"user"`
		}
		if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &event) != nil {
			continue // it is being written
		}
		long := event.Verb == "watch" // has a stage of its own while it lasts
		from := event.User.Extra["authentication.kubernetes.io/node-name"]
		if len(from) != 1 || from[0] != node || (event.Stage == "ResponseStarted") != long || strings.HasSuffix(event.UserAgent, "(checks)") {
			continue
		}
		to := shipped
		if strings.HasPrefix(event.UserAgent, "evictd/fleet") {
			to = fleets
		}
		to[event.Verb+" "+withoutTimeout(t, event.RequestURI)]++
	}
	return fleets, shipped
}

// withoutTimeout drops the time limits of watches, which are random.
func withoutTimeout(t *testing.T, uri string) string {
	t.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	query := parsed.Query()
	if query.Has("watch") {
		query.Del("timeout")
		query.Del("timeoutSeconds")
	}
	text, err := url.QueryUnescape(query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s?%s", parsed.Path, text)
}
