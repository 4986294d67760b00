package usage

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestFindKubepods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		groups []string // without the hierarchy
		own    string   // evictd's pod
		want   string
		wantIn []string // of the error
	}{
		"cgroupfs":           {groups: []string{"/kubepods"}, want: "/kubepods"},
		"systemd":            {groups: []string{"/kubepods.slice", "/system.slice/x.service"}, want: "/kubepods.slice"},
		"below another root": {groups: []string{"/evictd-test/kubepods"}, want: "/evictd-test/kubepods"},
		"kind": {
			groups: []string{"/kubelet.slice/kubelet-kubepods.slice"}, want: "/kubelet.slice/kubelet-kubepods.slice",
		},
		"kind, seen from its host": {
			groups: []string{"/system.slice/docker-0123.scope/kubelet.slice/kubelet-kubepods.slice"},
			want:   "/system.slice/docker-0123.scope/kubelet.slice/kubelet-kubepods.slice",
		},
		"the nearest": {
			groups: []string{"/a/kubepods/burstable/pod1", "/kubepods.slice/kubepods-pod1.slice/c/kubepods/podx"},
			want:   "/kubepods.slice",
		},
		"of two the one with pods": {
			groups: []string{"/kubepods.slice", "/kubepods/besteffort/pod1"}, want: "/kubepods",
		},
		"an empty one that is nearer": {
			groups: []string{"/kubepods.slice", "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod1.slice"},
			want:   "/kubelet.slice/kubelet-kubepods.slice",
		},
		"the remains of another driver": {
			groups: []string{"/kubepods/burstable/pod1", "/kubepods.slice/kubepods-pod1_2.slice"}, own: "1-2",
			want: "/kubepods.slice",
		},
		"evictd's pod is elsewhere": {groups: []string{"/kubepods/pod1", "/kubepods.slice"}, own: "2", want: "/kubepods"},
		"two with pods": {
			groups: []string{"/a/kubepods/pod1", "/b/kubepods/pod1"},
			wantIn: []string{"/a/kubepods, /b/kubepods", "2 have pods", "--kubepods-cgroup"},
		},
		"two without pods": {
			groups: []string{"/kubepods", "/kubepods.slice"},
			wantIn: []string{"/kubepods, /kubepods.slice", "0 have pods", "--kubepods-cgroup"},
		},
		"none":         {groups: []string{"/system.slice", "/user.slice/notkubepods"}, wantIn: []string{"no kubepods cgroup", "--kubepods-cgroup"}},
		"too far down": {groups: []string{"/1/2/3/4/5/kubepods"}, wantIn: []string{"no kubepods cgroup", "5 levels"}},
	}
	for name, tc := range tests {
		for _, version := range []version{v1, hybrid, v2} {
			node := version.Mount()
			for _, group := range tc.groups {
				node[version.Dir("memory", group)] = directory
				if version != v2 {
					// Only the memory hierarchy counts.
					node[filepath.Join("pids/elsewhere", group)] = directory
				}
			}
			mount := node.Plant(t)
			got, err := FindKubepods(mount, tc.own)
			if got != tc.want || (err == nil) != (tc.wantIn == nil) {
				t.Errorf("%s: got %q, %v; want %q", name, got, err, tc.want)
				continue
			}
			for _, want := range tc.wantIn {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: the error %q does not say %q", name, err, want)
				}
			}
			if tc.wantIn != nil && !strings.Contains(err.Error(), mount) {
				t.Errorf("%s: the error %q does not say where", name, err)
			}
		}
	}
}
