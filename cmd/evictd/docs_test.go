package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

func readDoc(t *testing.T, path string) string {
	t.Helper()
	return readFile(t, "../../"+path)
}

// The README's sample is what `evictd rank` prints for these pods.
func TestReadmeShowsWhatRankPrints(t *testing.T) {
	t.Parallel()
	const tenthMi = 1<<20/10 + 1 // the sample's figures are rounded
	running := func(namespace, name, owner string, used, request int64) status.Pod {
		return status.Pod{Usage: &usage.Pod{Anonymous: used}, Pod: nodepods.Pod{MemoryRequest: request, Pod: rank.Pod{
			Namespace: namespace, Name: name, UID: name, Owner: owner, GraceSeconds: 30, Created: time.Unix(1, 0),
		}}}
	}
	d := &status.Document{NodeName: "worker-1", Time: time.Unix(1795140847, 0), Configuration: config.Default(), Pods: []status.Pod{
		running("shop", "first-f58888868-ddbnx", "ReplicaSet/first-f58888868", 543*tenthMi, 10<<20),
		running("shop", "second-65f665cb6d-b786q", "ReplicaSet/second-65f665cb6d", 53<<20, 100<<20),
		running("evictd", "evictd-jtzhr", "DaemonSet/evictd", 142*tenthMi, 64<<20),
	}}
	d.Pods[2].Priority, d.Pods[2].Self = 2000001000, true
	d.Signals = []status.Signal{{
		Name: pressure.MemoryAvailable, State: pressure.Known.String(), Available: new(int64(1056) << 20), Capacity: new(int64(24064) << 20),
		Thresholds: []status.Threshold{{Kind: "Hard", Line: new(int64(1203) << 20), Since: d.Time.Add(-time.Second), Holds: true}},
	}}
	d.Rank(pressure.MemoryAvailable)
	var printed bytes.Buffer
	must(t, d.WriteRanking(&printed, pressure.MemoryAvailable, false))
	if !strings.Contains(readDoc(t, "README.md"), printed.String()) {
		t.Errorf("README.md does not hold:\n%s", printed.String())
	}
}
