//go:build e2e_all

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/node"
)

// In a dry run the kubelet evicts the pod that filled the disk: the record says by whom it went.
func TestRecordTellsWhomTheKubeletEvicted(t *testing.T) {
	on(t, oneDisk)
	spaceIsBackAtTheEnd(t, node.DiskSpace)
	s := emptyScene(t)
	modest, greedy := modestWriter(s), writer(s, "greedy", []string{"--grow=/data/fill", fmt.Sprintf("--grow-bytes=%dMi", greedyMiB)})
	line, err := live.LineBelow(t.Context(), node.DiskSpace, untilMetMiB)
	s.must(err)
	s.kubeletEvicts(map[string]string{node.NodeMemory: "1Mi", node.DiskSpace: fmt.Sprint(line)})
	s.configure(node.Policy{Signal: node.DiskSpace, Line: line, DryRun: true, Extra: bareToo, Transition: time.Second})
	eventually.Undo(t, s.farFromAnyLine)
	greedy.works()
	s.recorded(greedy, func(i *history.Incident) []string { return i.Kubelet })
	s.stays(&modest.Pod)
}

// While the node is short the kernel kills a container in its own limit: the record says so.
func TestRecordTellsWhomTheKernelKilled(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	tight := deployWorker(s, node.Workload{Name: "tight", UsesMiB: 300, AsksMiB: 50, LimitMiB: 100})
	s.threshold(node.NodeMemory, -headroom, true, "")
	eventually.Undo(t, s.farFromAnyLine)
	tight.start().Open(t)
	s.recorded(tight, func(i *history.Incident) []string { return i.Killed })
	s.wantVictims()
}
