package usage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summaryText is a kubelet's response for one pod, without the fields that are not read.
const summaryText = `{"node": {"nodeName": "node-1"}, "pods": [{
  "podRef": {"name": "web", "namespace": "shop", "uid": "u1"},
  "containers": [{"name": "web",
    "rootfs": {"time": "2026-03-01T12:00:10Z", "availableBytes": 9, "capacityBytes": 9, "usedBytes": 100, "inodesUsed": 10},
    "logs": {"time": "2026-03-01T12:00:05Z", "usedBytes": 20, "inodesUsed": 2}}],
  "volume": [{"time": "2026-03-01T12:00:07Z", "usedBytes": 3, "inodesUsed": 1, "name": "cache"}]
}]}`

// kubelet is a server with that handler.
func kubelet(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func answer(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestFetchSummary(t *testing.T) {
	t.Parallel()
	server := kubelet(t, answer(http.StatusOK, "application/json; charset=utf-8", summaryText))
	summary, err := FetchSummary(t.Context(), server.Client(), server.URL+"/stats/summary")
	if err != nil {
		t.Fatal(err)
	}
	uses := DiskUses(summary, false, map[string][]string{"u1": {"cache"}})
	all := FSUse{Bytes: 123, BytesKnown: true, Inodes: 13, InodesKnown: true}
	parts := Parts{Layers: knownUse(100, 10), Logs: knownUse(20, 2), Volumes: knownUse(3, 1)}
	want := DiskUse{
		NodeFS: all, ImageFS: all, OnNodeFS: parts, OnImageFS: parts,
		Time: time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC),
	}
	if diff := gocmp.Diff(map[string]DiskUse{"u1": want}, uses); diff != "" {
		t.Errorf("uses (-want +got):\n%s", diff)
	}
	// Images have their own filesystem: each part is on one of the two.
	none := knownUse(0, 0)
	want.NodeFS, want.OnNodeFS.Layers = knownUse(23, 3), none
	want.ImageFS, want.OnImageFS.Logs, want.OnImageFS.Volumes = parts.Layers, none, none
	if diff := gocmp.Diff(want, DiskUses(summary, true, map[string][]string{"u1": {"cache"}})["u1"]); diff != "" {
		t.Errorf("with images of their own (-want +got):\n%s", diff)
	}
}

func TestFetchSummaryRefuses(t *testing.T) {
	t.Parallel()
	const json = "application/json"
	tests := map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"unauthorized":   {answer(401, "text/plain", "Unauthorized"), "401 Unauthorized; evictd needs the verb get on nodes/stats: \"Unauthorized\""},
		"forbidden":      {answer(403, "text/plain", "Forbidden (user=x)"), "403 Forbidden; evictd needs the verb get on nodes/stats"},
		"internal error": {answer(500, json, summaryText), "500 Internal Server Error"},
		"long error":     {answer(503, "text/html", strings.Repeat("x", 10_000)), "503 Service Unavailable"},
		"not found":      {answer(404, json, ""), "404 Not Found"},
		"no content":     {answer(204, json, ""), "204 No Content"},
		"HTML":           {answer(200, "text/html", "<html>log in</html>"), "text/html"},
		"HTML as JSON":   {answer(200, json, "<html>log in</html>"), "invalid character"},
		"empty":          {answer(200, json, ""), "unexpected end"},
		"truncated":      {answer(200, json, summaryText[:200]), "unexpected end"},
		"truncated with a length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", json)
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, summaryText)
		}, "unexpected EOF"},
		"two documents":   {answer(200, json, summaryText+summaryText), "after top-level value"},
		"another object":  {answer(200, json, `{"kind": "Status"}`), "no summary"},
		"null":            {answer(200, json, `null`), "no summary"},
		"a list":          {answer(200, json, `[]`), "cannot unmarshal"},
		"negative figure": {answer(200, json, strings.Replace(summaryText, "100", "-100", 1)), "cannot unmarshal"},
		"a float":         {answer(200, json, strings.Replace(summaryText, "100", "1.5", 1)), "cannot unmarshal"},
		"huge":            {answer(200, json, `{"node": {"nodeName": "`+strings.Repeat("x", summaryMax)+`"}}`), "larger than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := kubelet(t, tc.handler)
			summary, err := FetchSummary(t.Context(), server.Client(), server.URL)
			if summary != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %+v, %v; want an error with %q", summary, err, tc.want)
			}
			if len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestFetchSummaryEndsWithItsContext: a kubelet that never responds, or whose response never
// ends, does not block evictd.
func TestFetchSummaryEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"no answer": "", "half an answer": summaryText[:50]} {
		ctx, cancel := context.WithCancel(t.Context())
		server := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, begin)
				_ = http.NewResponseController(w).Flush()
			}
			cancel()
			<-r.Context().Done()
		})
		if summary, err := FetchSummary(ctx, server.Client(), server.URL); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %+v, %v", name, summary, err)
		}
	}
}

func TestFetchSummaryUnreachable(t *testing.T) {
	t.Parallel()
	server := kubelet(t, answer(200, "application/json", summaryText))
	server.Close()
	if summary, err := FetchSummary(t.Context(), server.Client(), server.URL); err == nil {
		t.Errorf("got %+v", summary)
	}
	if _, err := FetchSummary(t.Context(), server.Client(), "://"); err == nil {
		t.Error("fetched from no address")
	}
}

func stats(bytes, inodes uint64) *statsapi.FsStats {
	return &statsapi.FsStats{Time: metav1.Unix(1000, 0), UsedBytes: &bytes, InodesUsed: &inodes}
}

func knownUse(bytes, inodes int64) FSUse {
	return FSUse{Bytes: bytes, Inodes: inodes, BytesKnown: true, InodesKnown: true}
}

func TestDiskUses(t *testing.T) {
	t.Parallel()
	taken := time.Unix(1000, 0)
	figure := uint64(7)
	volume := func(name string, s *statsapi.FsStats) statsapi.VolumeStats {
		return statsapi.VolumeStats{Name: name, FsStats: *s}
	}
	two := []statsapi.ContainerStats{
		{Rootfs: stats(100, 10), Logs: stats(20, 2)}, {Rootfs: stats(200, 20), Logs: stats(40, 4)},
	}
	volumes := []statsapi.VolumeStats{volume("cache", stats(1000, 100)), volume("claim", stats(9999, 999)), volume("config", stats(1, 1))}
	huge := uint64(1) << 63
	tests := map[string]struct {
		pod       statsapi.PodStats
		dedicated bool
		volumes   map[string][]string
		want      DiskUse
	}{
		"one filesystem": {
			pod: statsapi.PodStats{Containers: two, VolumeStats: volumes}, volumes: map[string][]string{"u": {"cache", "config"}},
			want: DiskUse{NodeFS: knownUse(1361, 137), ImageFS: knownUse(1361, 137), Time: taken},
		},
		"dedicated imagefs": {
			pod: statsapi.PodStats{Containers: two, VolumeStats: volumes}, volumes: map[string][]string{"u": {"cache", "config"}}, dedicated: true,
			want: DiskUse{NodeFS: knownUse(1061, 107), ImageFS: knownUse(300, 30), Time: taken},
		},
		"no volume that counts": {
			pod: statsapi.PodStats{Containers: two, VolumeStats: volumes}, volumes: map[string][]string{"u": nil},
			want: DiskUse{NodeFS: knownUse(360, 36), ImageFS: knownUse(360, 36), Time: taken},
		},
		"volumes unknown": {
			pod: statsapi.PodStats{Containers: two, VolumeStats: volumes}, volumes: map[string][]string{"other": nil}, dedicated: true,
			want: DiskUse{NodeFS: FSUse{Bytes: 60, Inodes: 6}, ImageFS: knownUse(300, 30)},
		},
		"volume not measured yet": {
			pod: statsapi.PodStats{Containers: two}, volumes: map[string][]string{"u": {"cache"}},
			want: DiskUse{NodeFS: FSUse{Bytes: 360, Inodes: 36}, ImageFS: FSUse{Bytes: 360, Inodes: 36}},
		},
		"no writable layer": {
			pod:     statsapi.PodStats{Containers: []statsapi.ContainerStats{{Logs: stats(20, 2)}, {Rootfs: stats(1, 1), Logs: stats(1, 1)}}},
			volumes: map[string][]string{"u": nil}, dedicated: true,
			want: DiskUse{NodeFS: knownUse(21, 3), ImageFS: FSUse{Bytes: 1, Inodes: 1}},
		},
		"no logs": {
			pod:     statsapi.PodStats{Containers: []statsapi.ContainerStats{{Rootfs: stats(20, 2)}}},
			volumes: map[string][]string{"u": nil}, dedicated: true,
			want: DiskUse{ImageFS: knownUse(20, 2)},
		},
		"no bytes": {
			pod: statsapi.PodStats{Containers: []statsapi.ContainerStats{{
				Rootfs: &statsapi.FsStats{Time: metav1.Unix(1000, 0), InodesUsed: &figure}, Logs: stats(1, 1),
			}}},
			volumes: map[string][]string{"u": nil},
			want: DiskUse{
				NodeFS: FSUse{Bytes: 1, Inodes: 8, InodesKnown: true}, ImageFS: FSUse{Bytes: 1, Inodes: 8, InodesKnown: true}, Time: taken,
			},
		},
		"no inodes": {
			pod: statsapi.PodStats{Containers: []statsapi.ContainerStats{{
				Rootfs: stats(1, 1), Logs: &statsapi.FsStats{Time: metav1.Unix(1000, 0), UsedBytes: &figure},
			}}},
			volumes: map[string][]string{"u": nil},
			want: DiskUse{
				NodeFS: FSUse{Bytes: 8, BytesKnown: true, Inodes: 1}, ImageFS: FSUse{Bytes: 8, BytesKnown: true, Inodes: 1}, Time: taken,
			},
		},
		"no time": {
			pod: statsapi.PodStats{Containers: []statsapi.ContainerStats{{
				Rootfs: stats(1, 1), Logs: &statsapi.FsStats{UsedBytes: &figure, InodesUsed: &figure},
			}}},
			volumes: map[string][]string{"u": nil},
			want:    DiskUse{NodeFS: knownUse(8, 8), ImageFS: knownUse(8, 8)},
		},
		"too large": {
			pod:     statsapi.PodStats{Containers: []statsapi.ContainerStats{{Rootfs: stats(huge, 1), Logs: stats(1, 1)}}},
			volumes: map[string][]string{"u": nil},
			want: DiskUse{
				NodeFS: FSUse{Bytes: 1, Inodes: 2, InodesKnown: true}, ImageFS: FSUse{Bytes: 1, Inodes: 2, InodesKnown: true}, Time: taken,
			},
		},
		"too large together": {
			pod:     statsapi.PodStats{Containers: []statsapi.ContainerStats{{Rootfs: stats(huge-1, 1), Logs: stats(huge-1, 1)}}},
			volumes: map[string][]string{"u": nil},
			want: DiskUse{
				NodeFS:  FSUse{Bytes: math.MaxInt64, Inodes: 2, InodesKnown: true},
				ImageFS: FSUse{Bytes: math.MaxInt64, Inodes: 2, InodesKnown: true}, Time: taken,
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.pod.PodRef.UID = "u"
			got := DiskUses(&statsapi.Summary{Pods: []statsapi.PodStats{tc.pod}}, tc.dedicated, tc.volumes)
			sums := got["u"]
			sums.OnNodeFS, sums.OnImageFS = Parts{}, Parts{} // TestFetchSummary has these
			if diff := gocmp.Diff(tc.want, sums); diff != "" || len(got) != 1 {
				t.Errorf("%d pods, use (-want +got):\n%s", len(got), diff)
			}
		})
	}
}

func TestDiskUsesLeavesOut(t *testing.T) {
	t.Parallel()
	summary := &statsapi.Summary{Pods: []statsapi.PodStats{
		{PodRef: statsapi.PodReference{UID: "no container"}},
		{Containers: []statsapi.ContainerStats{{Rootfs: stats(1, 1), Logs: stats(1, 1)}}},
	}}
	if got := DiskUses(summary, false, map[string][]string{"no container": nil, "": nil}); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func FuzzSummary(f *testing.F) {
	f.Add([]byte(summaryText), true)
	f.Add([]byte(`{"node": {"nodeName": "n"}, "pods": [{"podRef": {"uid": "u"}, "containers": [{}]}]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, dedicated bool) {
		summary, err := parseSummary(body)
		if err != nil {
			return
		}
		for uid, use := range DiskUses(summary, dedicated, map[string][]string{"u": nil, "u1": {"cache"}}) {
			for _, fs := range []FSUse{use.NodeFS, use.ImageFS} {
				if fs.Bytes < 0 || fs.Inodes < 0 {
					t.Errorf("pod %q uses %+v", uid, fs)
				}
			}
		}
	})
}
