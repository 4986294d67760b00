package record_test

import (
	"errors"
	"testing"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

func TestKubeletThresholdCheckIsLoggedAndShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.KubeletThresholds(&kubeletconfig.Configuration{Files: []string{"/k.yaml"}, Unread: []string{"evictionHard[x]: is no signal"}}, &kubeletconfig.Result{
		Compared: []pressure.Signal{pressure.MemoryAvailable, pressure.NodeFSAvailable, pressure.ImageFSAvailable},
		Findings: []kubeletconfig.Finding{
			{Signal: pressure.MemoryAvailable, Kind: kubeletconfig.KubeletFirst, Detail: "first"},
			{Signal: pressure.NodeFSAvailable, Kind: kubeletconfig.KubeletMaybeFirst, Detail: "maybe"},
			{Signal: pressure.ImageFSAvailable, Kind: kubeletconfig.BeforeImages, Detail: "images"},
		},
	})
	lines := r.lines(t)
	for i, want := range []struct{ level, message, detail string }{
		{"warn", "an entry of the kubelet's configuration is not understood", "evictionHard[x]: is no signal"},
		{"warn", "the kubelet would evict before evictd", "first"},
		{"info", "the kubelet may evict before evictd", "maybe"},
		{"warn", "evictd would evict before the kubelet deletes unused images", "images"},
	} {
		if i >= len(lines) || lines[i]["level"] != want.level || lines[i]["msg"] != want.message || lines[i]["detail"] != want.detail {
			t.Errorf("line %d is not %+v: %v", i, want, lines)
		}
	}
	const help = "# HELP evictd_kubelet_acts_first 1 when the kubelet would evict for the signal before evictd does, by the two configurations, 0 when it would not; missing for signals that were not compared.\n# TYPE evictd_kubelet_acts_first gauge\n"
	expect(t, r, help+`evictd_kubelet_acts_first{signal="imagefs.available"} 0
evictd_kubelet_acts_first{signal="memory.available"} 1
evictd_kubelet_acts_first{signal="nodefs.available"} 0
`, "evictd_kubelet_acts_first")
	if got := value(t, r, "evictd_kubelet_config_read"); got != 1 {
		t.Errorf("evictd_kubelet_config_read = %v, want 1", got)
	}
	r.KubeletThresholdsUnknown(false, errors.New("nothing is there"))
	r.KubeletThresholdsUnknown(true, errors.New("nothing is there"))
	expect(t, r, "", "evictd_kubelet_acts_first")
	if got := value(t, r, "evictd_kubelet_config_read"); got != 0 {
		t.Errorf("evictd_kubelet_config_read = %v, want 0", got)
	}
	if said := r.lines(t); len(said) != 2 || said[0]["level"] != "info" || said[1]["level"] != "warn" {
		t.Errorf("lines %v, want info where nobody named the file, and warn where somebody did", said)
	}
}
