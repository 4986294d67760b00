package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/internal/audit"
)

// The audit log decides which pods the round evicted.
func TestWrongVictimIsNamed(t *testing.T) {
	log := audit.Log{Path: filepath.Join(t.TempDir(), "audit.log")}
	var text strings.Builder
	for _, e := range []struct {
		namespace, name string
		code            int
	}{
		{namespace, "leak-5f-a", 201},
		{namespace, "leak-5f-a", 201}, // sent again: its answer was lost
		{namespace, "guarded-5f-b", 429},
		{namespace, "leaking-5f-c", 201},
		{"kube-system", "leak-5f-d", 201},
	} {
		fmt.Fprintf(&text, `{"stage":"ResponseComplete","verb":"create","responseStatus":{"code":%d},"objectRef":{"resource":"pods","subresource":"eviction","namespace":%q,"name":%q}}`+"\n",
			e.code, e.namespace, e.name)
	}
	if err := os.WriteFile(log.Path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	count, wrong, err := evicted(&log, map[string]int{"leak": 1})
	if err != nil || count != 3 || strings.Join(wrong, " ") != "incidents/leaking-5f-c kube-system/leak-5f-d" {
		t.Errorf("%d evicted, wrong %v, error %v", count, wrong, err)
	}
	if count, _, err := evicted(&log, nil); err != nil || count != 0 {
		t.Errorf("%d of the round before are counted again, error %v", count, err)
	}
}

// A victim that the kubelet ends is evictd's fault, unless a fault held evictd up or the lines are a disk's.
func TestMissingVictimIsNamed(t *testing.T) {
	paused := fault{do: pausing(0)}
	for name, c := range map[string]struct {
		number    int
		meanwhile fault
		ends      []End
		complete  bool
	}{
		"evictd":                      {1, fault{}, []End{{App: leakApp, By: byEvictd}}, true},
		"evictd, another":             {1, fault{}, []End{{App: webApp, By: byEvictd}}, false},
		"none, while evictd waits":    {1, paused, nil, false},
		"the kubelet":                 {1, fault{}, []End{{App: leakApp, By: byKubelet}}, false},
		"the kubelet, while it waits": {1, paused, []End{{App: webApp, By: byKubelet}}, true},
		"the kubelet, on a disk":      {10, fault{}, []End{{App: fillerApp, By: byKubelet}}, true},
		"none, on a disk":             {10, fault{}, nil, false},
		"it came back once":           {9, fault{}, []End{{App: leakApp, By: byEvictd}}, false},
		"it came back twice":          {9, fault{}, []End{{App: leakApp, By: byEvictd}, {App: leakApp, By: byEvictd}}, true},
		"none is wanted":              {3, fault{}, nil, true},
	} {
		played := find(c.number)
		if err := missing(played, &Result{Ends: c.ends, Smallest: played.Smallest}, &c.meanwhile); (err == nil) != c.complete {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A leak of one goroutine a round is found, of 20 rounds 19.5, and noise around a level is not.
func TestGrowthIsFound(t *testing.T) {
	v := vitals{values: map[string][]float64{}}
	for round := range 20 {
		v.values["go_goroutines"] = append(v.values["go_goroutines"], 40+float64(round))
		v.values["go_threads"] = append(v.values["go_threads"], 30+float64(round%2))
	}
	if grown := v.grown(io.Discard); grown == nil || !strings.HasPrefix(grown.Error(), "go_goroutines grew by 19.5") || strings.Contains(grown.Error(), "\n") {
		t.Errorf("grown: %v", grown)
	}
}
