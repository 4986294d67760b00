package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/measure"
)

// TestWrongVictimIsNamed: the audit log decides which pods the round evicted.
func TestWrongVictimIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	var text strings.Builder
	for _, e := range []struct {
		namespace, name string
		code            int
	}{
		{"soak-1", "leak-5f-a", 201},
		{"soak-1", "leak-5f-a", 201}, // sent again: its answer was lost
		{"soak-1", "guarded-5f-b", 429},
		{"soak-1", "leaking-5f-c", 201},
		{"kube-system", "leak-5f-d", 201},
	} {
		fmt.Fprintf(&text, `{"stage":"ResponseComplete","verb":"create","responseStatus":{"code":%d},"objectRef":{"resource":"pods","subresource":"eviction","namespace":%q,"name":%q}}`+"\n",
			e.code, e.namespace, e.name)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	st := &stage{soak: &soak{audit: audit.Log{Path: path}}, namespace: "soak-1"}
	for range 2 { // reading so far does not move the log
		if count, wrong, err := st.evictedSoFar([]string{"leak"}); err != nil || count != 3 || strings.Join(wrong, " ") != "soak-1/leaking-5f-c kube-system/leak-5f-d" {
			t.Errorf("%d evicted, wrong %v, error %v", count, wrong, err)
		}
	}
	st.rounds = append(st.rounds, roundResult{wrong: []string{"soak-1/leaking-5f-c"}})
	if err := st.verdict([]string{"20260101-1"}); err == nil || !strings.Contains(err.Error(), "leaking-5f-c was evicted") || !strings.Contains(err.Error(), "20260101-1 has begun") {
		t.Errorf("the verdict: %v", err)
	}
}

func TestIncidentsAreFollowedByTheirIDs(t *testing.T) {
	l := &logbook{}
	for _, line := range []string{
		`{"msg":"incident began","incident":"a"}`, `{"msg":"incident began","incident":"b"}`, "no JSON",
		`{"msg":"incident began","incident":"a"}`, `{"msg":"incident ended","incident":"a"}`,
	} {
		l.observe(line)
	}
	if open := l.openIncidents(); len(open) != 1 || open[0] != "b" {
		t.Errorf("open: %v", open)
	}
}

// TestGrowthIsFound: a leak of one goroutine a minute is found, and noise around a level is not.
func TestGrowthIsFound(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	v := vitals{values: map[string][]float64{}}
	for minute := range 20 {
		v.at = append(v.at, at.Add(time.Duration(minute)*time.Minute))
		v.values["goroutines"] = append(v.values["goroutines"], 40+float64(minute))
		v.values["resident memory"] = append(v.values["resident memory"], 30+float64(minute%2))
	}
	goroutines := figures()[3]
	if slope := v.slope(&goroutines); math.Abs(slope-60) > 1e-6 {
		t.Errorf("the slope of one a minute is %v an hour", slope)
	}
	if grown := v.grown(); len(grown) != 1 || !strings.Contains(grown[0].Error(), "goroutines grew by 19.0") {
		t.Errorf("grown: %v", grown)
	}
}

func TestFlags(t *testing.T) {
	for arguments, fits := range map[string]bool{"": true, "--duration=3m --seed=5": true, "--duration=10s": false, "--rounds=3": false} {
		if _, err := parse(strings.Fields(arguments)); (err == nil) != fits {
			t.Errorf("%q: %v", arguments, err)
		}
	}
	if err := measure.Sleep(cancelled(t), time.Hour); err == nil {
		t.Error("a wait outlived its context")
	}
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
