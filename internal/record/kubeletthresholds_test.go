package record_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	expect(t, r, "evictd_kubelet_acts_first", "imagefs.available 0", "memory.available 1", "nodefs.available 0")
	if got := value(t, r, "evictd_kubelet_config_read"); got != 1 {
		t.Errorf("evictd_kubelet_config_read = %v, want 1", got)
	}
	for range 2 { // each is said once
		r.KubeletThresholdsUnknown(false, errors.New("nothing is there"))
	}
	r.KubeletThresholdsUnknown(true, errors.New("it is not there"))
	expect(t, r, "evictd_kubelet_acts_first")
	if got := value(t, r, "evictd_kubelet_config_read"); got != 0 {
		t.Errorf("evictd_kubelet_config_read = %v, want 0", got)
	}
	if said := r.lines(t); len(said) != 2 || said[0]["level"] != "info" || said[1]["level"] != "warn" {
		t.Errorf("lines %v, want info where no flag names the file, and warn where one does", said)
	}
}

// TestKubeletHeadroom: what is not known has no series, and 0 is a figure. That the threshold is near is
// said once, until it is over; what is not known ends nothing.
func TestKubeletHeadroom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const name = "evictd_kubelet_memory_headroom_bytes"
	expect(t, r, name)
	var said []string
	for _, step := range []struct {
		headroom kubeletconfig.Headroom
		known    bool
		shown    []string
	}{
		{kubeletconfig.Headroom{Bytes: 1000}, true, []string{"1000"}},
		{kubeletconfig.Headroom{Bytes: 0, Near: true, Detail: "write this"}, true, []string{"0"}},
		{kubeletconfig.Headroom{}, false, nil},
		{kubeletconfig.Headroom{Bytes: -5, Near: true, Detail: "write that"}, true, []string{"-5"}},
		{kubeletconfig.Headroom{Bytes: 900}, true, []string{"900"}},
		{kubeletconfig.Headroom{Bytes: 901}, true, []string{"901"}},
	} {
		r.KubeletHeadroom(&step.headroom, step.known)
		expect(t, r, name, step.shown...)
	}
	for _, line := range r.lines(t) {
		said = append(said, fmt.Sprint(line["level"], " ", line["msg"], " ", line["headroom"], " ", line["detail"]))
	}
	if diff := cmp.Diff([]string{
		"warn the kubelet's memory threshold is near and evictd's is not 0 write this",
		"info the kubelet's memory threshold is not near any more, or evictd's is ahead of it 900 <nil>",
	}, said); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	want := []written{{"Node node-1 " + "node-1", "Warning", "KubeletEvictionNear", "the kubelet is about to evict pods before evictd: write this"}}
	if !slices.Equal(r.events.all, want) {
		t.Errorf("Events %+v, want %+v", r.events.all, want)
	}
}
