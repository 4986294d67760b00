package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
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

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

func TestFetchSummary(t *testing.T) {
	t.Parallel()
	server := kubelet(t, answer(http.StatusOK, summaryText))
	summary, err := FetchSummary(t.Context(), server.Client(), server.URL+"/stats/summary")
	must(t, err)
	layers, logs, volumes, none := knownUse(100, 10), knownUse(20, 2), knownUse(3, 1), knownUse(0, 0)
	all := Parts{layers, logs, volumes}
	for dedicated, want := range map[bool]DiskUse{
		false: {NodeFS: all, ImageFS: all},
		true:  {NodeFS: Parts{none, logs, volumes}, ImageFS: Parts{layers, none, none}}, // each part is on one of the two
	} {
		want.Time = time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
		got := DiskUses(summary, dedicated, map[string][]string{"u1": {"cache"}})
		if diff := gocmp.Diff(map[string]DiskUse{"u1": want}, got); diff != "" {
			t.Errorf("images of their own %t (-want +got):\n%s", dedicated, diff)
		}
	}
}

func TestFetchSummaryRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"unauthorized": {answer(401, "Unauthorized"), "401 Unauthorized; evictd needs the verb get on nodes/stats: \"Unauthorized\""},
		"forbidden":    {answer(403, "Forbidden (user=x)"), "403 Forbidden; evictd needs the verb get on nodes/stats"},
		"long error":   {answer(503, strings.Repeat("x", 10_000)), "503 Service Unavailable"},
		"no content":   {answer(204, ""), "204 No Content"},
		"HTML":         {answer(200, "<html>log in</html>"), "invalid character"},
		"truncated":    {answer(200, summaryText[:200]), "unexpected end"},
		"truncated with a length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, summaryText)
		}, "unexpected EOF"},
		"two documents":   {answer(200, summaryText+summaryText), "after top-level value"},
		"another object":  {answer(200, `{"kind": "Status"}`), "no summary"},
		"null":            {answer(200, `null`), "no summary"},
		"negative figure": {answer(200, strings.Replace(summaryText, "100", "-100", 1)), "cannot unmarshal"},
		"huge":            {answer(200, `{"node": {"nodeName": "`+strings.Repeat("x", summaryMax)+`"}}`), "larger than"},
	} {
		server := kubelet(t, tc.handler)
		summary, err := FetchSummary(t.Context(), server.Client(), server.URL)
		if summary != nil || err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 500 {
			t.Errorf("%s: got %+v, %.600v; want an error with %q of 500 bytes at most", name, summary, err, tc.want)
		}
	}
}

// TestFetchSummaryWithoutAnAnswer: a kubelet that never responds, or whose response never ends, does not
// block evictd; nor does an address where none is.
func TestFetchSummaryWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"no answer": "", "half an answer": summaryText[:50]} {
		ctx, cancel := context.WithCancel(t.Context())
		server := kubelet(t, func(w http.ResponseWriter, r *http.Request) {
			if begin != "" {
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
	gone := kubelet(t, nil)
	gone.Close()
	for _, address := range []string{gone.URL, "://"} {
		if summary, err := FetchSummary(t.Context(), gone.Client(), address); err == nil {
			t.Errorf("%s: got %+v", address, summary)
		}
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
	type containers = []statsapi.ContainerStats
	one := func(layer, logs *statsapi.FsStats) containers { return containers{{Rootfs: layer, Logs: logs}} }
	two := append(one(stats(100, 10), stats(20, 2)), one(stats(200, 20), stats(40, 4))...)
	var measured []statsapi.VolumeStats
	for name, figures := range map[string]*statsapi.FsStats{"cache": stats(1000, 100), "claim": stats(9999, 999), "config": stats(1, 1)} {
		measured = append(measured, statsapi.VolumeStats{Name: name, FsStats: *figures})
	}
	figure, huge, taken := uint64(7), uint64(1)<<63, metav1.Unix(1000, 0)
	const at = true // all figures have a time
	atLeast := func(bytes, inodes int64) FSUse { return FSUse{Bytes: bytes, Inodes: inodes} }
	bytesOf := func(bytes, inodes int64) FSUse { return FSUse{Bytes: bytes, BytesKnown: true, Inodes: inodes} }
	inodesOf := func(bytes, inodes int64) FSUse { return FSUse{Bytes: bytes, Inodes: inodes, InodesKnown: true} }
	for name, tc := range map[string]struct {
		containers    containers
		dedicated     bool
		volumes       []string // nil: it is not known which count
		nodefs, image FSUse
		timed         bool
	}{
		"one filesystem":          {two, false, []string{"cache", "config"}, knownUse(1361, 137), knownUse(1361, 137), at},
		"dedicated imagefs":       {two, true, []string{"cache", "config"}, knownUse(1061, 107), knownUse(300, 30), at},
		"no volume that counts":   {two, false, []string{}, knownUse(360, 36), knownUse(360, 36), at},
		"volumes unknown":         {two, true, nil, atLeast(60, 6), knownUse(300, 30), false},
		"volume not measured yet": {two, false, []string{"new"}, atLeast(360, 36), atLeast(360, 36), false},
		"no writable layer":       {append(one(nil, stats(20, 2)), one(stats(1, 1), stats(1, 1))...), true, []string{}, knownUse(21, 3), atLeast(1, 1), false},
		"no logs":                 {one(stats(20, 2), nil), true, []string{}, atLeast(0, 0), knownUse(20, 2), false},
		"no bytes":                {one(&statsapi.FsStats{Time: taken, InodesUsed: &figure}, stats(1, 1)), false, []string{}, inodesOf(1, 8), inodesOf(1, 8), at},
		"no inodes":               {one(stats(1, 1), &statsapi.FsStats{Time: taken, UsedBytes: &figure}), false, []string{}, bytesOf(8, 1), bytesOf(8, 1), at},
		"no time":                 {one(stats(1, 1), &statsapi.FsStats{UsedBytes: &figure, InodesUsed: &figure}), false, []string{}, knownUse(8, 8), knownUse(8, 8), false},
		"too large":               {one(stats(huge, 1), stats(1, 1)), false, []string{}, inodesOf(1, 2), inodesOf(1, 2), at},
		"too large together":      {one(stats(huge-1, 1), stats(huge-1, 1)), false, []string{}, inodesOf(math.MaxInt64, 2), inodesOf(math.MaxInt64, 2), at},
		"no container":            {nil, false, []string{}, FSUse{}, FSUse{}, false},
	} {
		volumes := map[string][]string{"other": nil}
		if tc.volumes != nil {
			volumes["u"] = tc.volumes
		}
		got := DiskUses(&statsapi.Summary{Pods: []statsapi.PodStats{{Containers: two}, {
			PodRef: statsapi.PodReference{UID: "u"}, Containers: tc.containers, VolumeStats: measured,
		}}}, tc.dedicated, volumes)
		use, found := got["u"]
		if found != (tc.containers != nil) || len(got) > 1 || use.NodeFS.Sum() != tc.nodefs || use.ImageFS.Sum() != tc.image {
			t.Errorf("%s: got %+v; want %+v on nodefs, %+v on imagefs", name, got, tc.nodefs, tc.image)
		}
		if found && use.Time.Equal(taken.Time) != tc.timed || !tc.timed && !use.Time.IsZero() {
			t.Errorf("%s: the figures are of %s", name, use.Time)
		}
	}
}

// CRI-O can keep images on their own filesystem and writable layers on nodefs. A pod's
// layers then count to nodefs; counted to imagefs they would select the wrong victim.
func TestFaultLayersOnNodeFSBesideImages(t *testing.T) {
	t.Parallel()
	filesystem := func(capacity, used uint64) *statsapi.FsStats {
		return &statsapi.FsStats{CapacityBytes: &capacity, AvailableBytes: new(capacity / 2), UsedBytes: &used}
	}
	type runtime = statsapi.RuntimeStats
	root, images, third := filesystem(1000, 1), filesystem(4000, 2), filesystem(9000, 1)
	both, logs, layer, none := knownUse(120, 12), knownUse(20, 2), knownUse(100, 10), knownUse(0, 0)
	for name, test := range map[string]struct {
		dedicated     bool
		runtime       *runtime
		nodefs, image FSUse
		split         bool
	}{
		"layers are on nodefs":                             {true, &runtime{ImageFs: images, ContainerFs: root}, both, none, true},
		"two disks of the same size":                       {true, &runtime{ImageFs: filesystem(1000, 2), ContainerFs: root}, both, none, true},
		"nothing is known but what is stored":              {true, &runtime{ImageFs: &statsapi.FsStats{UsedBytes: new(uint64(1))}, ContainerFs: &statsapi.FsStats{}}, both, none, true},
		"layers are with the images":                       {true, &runtime{ImageFs: images, ContainerFs: filesystem(4000, 2)}, logs, layer, false},
		"layers have a third filesystem":                   {true, &runtime{ImageFs: images, ContainerFs: third}, logs, layer, false},
		"a kubelet that does not tell of it":               {true, &runtime{ImageFs: images}, logs, layer, false},
		"a kubelet that tells nothing":                     {true, nil, logs, layer, false},
		"what is read as imagefs is nodefs as well":        {false, &runtime{ImageFs: images, ContainerFs: root}, both, both, true},
		"images and layers are on a disk that is not seen": {false, &runtime{ImageFs: images, ContainerFs: images}, logs, logs, true},
		"that, by a kubelet without containerFs":           {false, &runtime{ImageFs: images}, logs, logs, true},
		"one filesystem":                                   {false, &runtime{ImageFs: root, ContainerFs: root}, both, both, false},
		"one filesystem, or so it seems":                   {false, nil, both, both, false},
	} {
		got := DiskUses(&statsapi.Summary{
			Node: statsapi.NodeStats{Fs: filesystem(1000, 700), Runtime: test.runtime},
			Pods: []statsapi.PodStats{{
				PodRef:     statsapi.PodReference{UID: "u"},
				Containers: []statsapi.ContainerStats{{Rootfs: stats(100, 10), Logs: stats(20, 2)}},
			}},
		}, test.dedicated, map[string][]string{"u": nil})["u"]
		if got.NodeFS.Sum() != test.nodefs || got.ImageFS.Sum() != test.image || got.SplitLayers != test.split {
			t.Errorf("%s: %+v; want %+v on nodefs, %+v on imagefs, split %t", name, got, test.nodefs, test.image, test.split)
		}
	}
}

// always answers each request with a body.
type always []byte

func (body always) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
}

func FuzzSummary(f *testing.F) {
	f.Add([]byte(summaryText), true)
	f.Add([]byte(`{"node": {"nodeName": "n"}, "pods": [{"podRef": {"uid": "u"}, "containers": [{}]}]}`), false)
	f.Fuzz(func(t *testing.T, body []byte, dedicated bool) {
		summary, err := FetchSummary(t.Context(), &http.Client{Transport: always(body)}, "http://kubelet")
		if err != nil {
			return
		}
		for uid, use := range DiskUses(summary, dedicated, map[string][]string{"u": nil, "u1": {"cache"}}) {
			for _, fs := range []FSUse{use.NodeFS.Sum(), use.ImageFS.Sum()} {
				if fs.Bytes < 0 || fs.Inodes < 0 {
					t.Errorf("pod %q uses %+v", uid, fs)
				}
			}
		}
	})
}
