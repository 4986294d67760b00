package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// A round has its fault as the last step, and a configuration that no other round has; the catalogue keeps its own.
func TestScenarioOfARound(t *testing.T) {
	s := soak{random: rand.New(rand.NewPCG(1, 0))}
	for _, number := range quick() {
		all := find(number)
		one, two := s.scenario(*all, &fault{}, 1), s.scenario(*all, &fault{name: "paused", do: pausing(0)}, 2)
		if len(one.Steps) != len(all.Steps) || len(two.Steps) != len(all.Steps)+1 || two.Steps[len(all.Steps)].What != "paused" {
			t.Errorf("scenario %d: steps %d and %d", number, len(one.Steps), len(two.Steps))
		}
		if one.Config == two.Config || !strings.HasPrefix(one.Config, all.Config) || one.Lasts > roundLasts {
			t.Errorf("scenario %d: configuration %q, lasts %v", number, one.Config, one.Lasts)
		}
	}
}

// An incident that was open when a process ended is open until the next one ends it.
func TestIncidentsAreFollowedByTheirIDs(t *testing.T) {
	l := &logbook{}
	l.take(`{"msg":"incident began","incident":"a"}
{"msg":"incident began","incident":"b"}
no JSON of an "incident began"
{"msg":"incident began","incident":"a"}
{"msg":"incident ended","incident":"a"}
`)
	if !slices.Equal(l.open, []string{"b"}) {
		t.Errorf("open: %v", l.open)
	}
	l.restart()
	first := `{"msg":"incident began","incident":"c"}` + "\n"
	for text, open := range map[string]int{first: 2, first + `{"msg":"incident ended","incident":"b"}` + "\n": 1} {
		if l.take(text); len(l.open) != open {
			t.Errorf("open after %q: %v", text, l.open)
		}
	}
}

// A leak of one goroutine a minute is found, and noise around a level is not.
func TestGrowthIsFound(t *testing.T) {
	v := vitals{values: map[string][]float64{}}
	const goroutines, memory = 3, 0
	for minute := range 20 {
		v.hours = append(v.hours, float64(minute)/60)
		for i, f := range figures() {
			value := 30 + float64(minute%2)
			if i == goroutines {
				value = 40 + float64(minute)
			}
			v.values[f.name] = append(v.values[f.name], value)
		}
	}
	if slope := v.slope(&figures()[goroutines]); math.Abs(slope-60) > 1e-6 {
		t.Errorf("the slope of one a minute is %v an hour", slope)
	}
	if slope := v.slope(&figures()[memory]); math.Abs(slope) > 1 {
		t.Errorf("the slope of noise is %v an hour", slope)
	}
	if grown := v.grown(); grown == nil || !strings.HasPrefix(grown.Error(), "goroutines grew by 19.0") || strings.Contains(grown.Error(), "\n") {
		t.Errorf("grown: %v", grown)
	}
}

func TestFlags(t *testing.T) {
	for arguments, fits := range map[string]bool{
		"": true, "--only=1,6": true, "--soak=3m --seed=5": true, "--soak=10s": false, "--only=99": false, "--arms=none": false, "--runs=0": false, "--rounds=3": false,
	} {
		if _, err := parse(strings.Fields(arguments)); (err == nil) != fits {
			t.Errorf("%q: %v", arguments, err)
		}
	}
	if s, err := parse([]string{"--soak=3m"}); err != nil || !slices.Equal(s.only, quick()) {
		t.Errorf("a soak plays %v: %v", s.only, err)
	}
}
