package record_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/record"
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
		t.Errorf("lines %v, want info where no flag names the file, and warn where one does", said)
	}
}

// TestKubeletHeadroomIsShown: what is not known has no series, and 0 is a figure.
func TestKubeletHeadroomIsShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const name = "evictd_kubelet_memory_headroom_bytes"
	expect(t, r, "", name)
	for _, bytes := range []int64{1 << 30, 0, -5} {
		r.KubeletHeadroom(bytes, true)
		if got := value(t, r, name); got != float64(bytes) {
			t.Errorf("%s = %v, want %d", name, got, bytes)
		}
	}
	r.KubeletHeadroom(0, false)
	expect(t, r, "", name)
}

func TestKubeletNearIsLoggedAndAnEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.KubeletNear(&kubeletconfig.Headroom{Bytes: 90 << 20, Near: true, Detail: "write this"})
	r.KubeletNear(&kubeletconfig.Headroom{Bytes: 900 << 20})
	lines := r.lines(t)
	if len(lines) != 2 || lines[0]["level"] != "warn" || lines[0]["detail"] != "write this" || lines[0]["headroom"] != float64(90<<20) ||
		lines[1]["level"] != "info" || lines[1]["headroom"] != float64(900<<20) {
		t.Errorf("lines %v", lines)
	}
	want := []written{{"Node node-1 " + "node-1", "Warning", record.ReasonKubeletNear, "the kubelet is about to evict pods before evictd: write this"}}
	if !slices.Equal(r.events.all, want) {
		t.Errorf("Events %+v, want %+v", r.events.all, want)
	}
}
