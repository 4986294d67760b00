package history

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// calmNode is a node of so many pods, whose use drifts.
type calmNode struct {
	random    *rand.Rand
	pods      []status.Pod
	available int64
}

func newCalmNode(pods int) *calmNode {
	n := &calmNode{random: rand.New(rand.NewPCG(1, 2)), available: 12 << 30}
	for i := range pods {
		hash := n.random.Uint64()
		n.pods = append(n.pods, status.Pod{Pod: nodepods.Pod{MemoryRequest: 256 << 20, Pod: rank.Pod{
			Namespace: fmt.Sprintf("team-%d", i%7), Name: fmt.Sprintf("service-%d-%x-%x", i%30, uint32(hash>>32), hash&0xfffff),
			UID: fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", n.random.Uint32(), hash&0xffff, hash>>52, hash>>40&0xfff, hash>>16), Ready: true,
			Created: time.Date(2026, 11, 20, 3, 0, i, 0, time.UTC), GraceSeconds: 30, Owner: fmt.Sprintf("ReplicaSet/service-%d", i%30),
			OwnerUID: fmt.Sprintf("%08x-0000-4000-a000-%012x", i%30, i%30), Labels: map[string]string{"app": fmt.Sprint(i % 30)},
		}}})
		n.pods[i].Usage = &usage.Pod{WorkingSet: 100 << 20, Anonymous: 80 << 20, Tasks: 20, TasksKnown: true}
	}
	return n
}

// at returns the document of a second; with pods where that is asked for.
func (n *calmNode) at(now time.Time, pods bool) *status.Document {
	d := &status.Document{Time: now, LastTick: now}
	n.available += n.random.Int64N(64<<20) - 32<<20
	for _, signal := range []pressure.Signal{pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable, pressure.NodeFSAvailable, pressure.NodeFSInodesFree} {
		line := int64(1 << 30)
		d.Signals = append(d.Signals, status.Signal{
			Name: signal, State: "Known", Available: new(n.available), Capacity: new(int64(16 << 30)),
			Thresholds: []status.Threshold{{Kind: "Hard", Line: &line}, {Kind: "Soft", Line: &line}},
		})
	}
	if !pods {
		return d
	}
	d.Pods = make([]status.Pod, len(n.pods))
	for i := range n.pods {
		used := *n.pods[i].Usage
		if i%3 == 0 {
			used.WorkingSet += n.random.Int64N(4<<20) - 2<<20
			used.Anonymous += n.random.Int64N(4<<20) - 2<<20
		}
		n.pods[i].Usage = &used
		d.Pods[i] = n.pods[i]
	}
	return d
}

// BenchmarkCalmHour writes an hour of a calm node of 110 pods: its cost per second, and the size of a day.
func BenchmarkCalmHour(b *testing.B) {
	dir := b.TempDir()
	n := newCalmNode(110)
	begin := time.Now()
	for b.Loop() {
		w := newTestWriter(b, dir, 1<<30)
		for second := range 3600 {
			now := begin.Add(time.Duration(second) * time.Second)
			w.take(entry{at: now, document: n.at(now, second%60 == 0)})
			if w.due(now) {
				end(w)
			}
		}
		end(w)
	}
	files, err := directory{path: dir}.files()
	if err != nil {
		b.Fatal(err)
	}
	var size int64
	for _, f := range files {
		size += f.size
	}
	b.ReportMetric(float64(size)/float64(b.N)*24/(1<<20), "MiB/day")
	perSecond := b.Elapsed().Seconds() / float64(b.N) / 3600
	b.ReportMetric(perSecond*1e6, "µs/s")
	b.ReportMetric(perSecond*100, "%core")
}

func newTestWriter(tb testing.TB, dir string, maxSize int64) *Writer {
	tb.Helper()
	w, err := NewWriter(dir, Options{Now: time.Now, MaxSize: maxSize, Failed: func(err error) { tb.Error(err) }, Complete: complete})
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

func complete(d *status.Document) {
	d.APIVersion, d.Kind, d.EvictdVersion, d.NodeName = status.APIVersion, status.Kind, "v1", "node-1"
	d.Configuration = config.Default()
}
