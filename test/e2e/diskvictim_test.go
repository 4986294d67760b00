//go:build e2e || e2e_all

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/evictd/evictd/test/internal/node"
)

// The pod that filled the disk with its emptyDir is evicted first and alone. Its blocks are allocated
// at once, so that the pod beside it could not cover what is missing at any moment, however old the
// kubelet's figures are.
func TestDiskVictimIsThePodThatFilledIt(t *testing.T) {
	t.Run("emptyDir", func(t *testing.T) {
		diskVictimIsThePodThatFilledIt(t, node.DiskSpace, untilMetMiB, []string{"--grow=/data/fill", fmt.Sprintf("--grow-bytes=%dMi", greedyMiB)})
	})
}

// diskVictimIsThePodThatFilledIt lets a pod fill the disk in that way.
func diskVictimIsThePodThatFilledIt(t *testing.T, signal string, untilMet int64, flags []string) {
	t.Helper()
	s := newDiskScene(t, signal, untilMet)
	modest, greedy := modestWriter(s), writer(s, "greedy", flags)
	line := s.count(t.Context(), "evictd_threshold_line_"+node.UnitOf(signal), "signal", signal)
	greedy.works()
	d := s.gone(&greedy.Pod)
	if d.Signal != signal || d.Verb != "Acted" || d.Attempts[0].UID != string(greedy.UID) || d.Attempts[0].Outcome != "Evicted" {
		t.Errorf("the decision: %+v", d)
	}
	// The disk is still full until the kubelet has removed the victim's containers.
	s.until("the victim's space has come back", func(context.Context) bool {
		available, err := live.DiskAvailable(signal)
		return err == nil && float64(available) >= line
	})
	s.calm(signal)
	s.wantVictims(&greedy.Pod)
	s.stays(&modest.Pod)
	s.recorded(greedy, evicted)
}
