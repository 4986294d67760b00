package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// kubeletReads returns the thresholds that the kubelet reads from a file, and its image
// threshold. The kubelet's own loader reads the file. What the kubelet then does about the
// default thresholds is not exported (cmd/kubelet/app/server.go, loadConfigFile) and is done
// here with its own map.
func kubeletReads(t *testing.T, path string) (lines []string, imageGC int32, err error) {
	t.Helper()
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, path)
	if err != nil {
		return nil, 0, err
	}
	kc, err := loader.Load(t.Context())
	if err != nil {
		return nil, 0, err
	}
	if kc.EvictionHard == nil {
		kc.EvictionHard = eviction.DefaultEvictionHard
	} else if kc.MergeDefaultEvictionSettings {
		for name, text := range eviction.DefaultEvictionHard {
			if _, there := kc.EvictionHard[name]; !there {
				kc.EvictionHard[name] = text
			}
		}
	}
	parsed, err := eviction.ParseThresholdConfig(kc.EnforceNodeAllocatable, kc.EvictionHard, kc.EvictionSoft, kc.EvictionSoftGracePeriod, kc.EvictionMinimumReclaim)
	if err != nil {
		return nil, 0, err
	}
	for i := range parsed {
		one := &parsed[i]
		line := evictionapi.GetThresholdQuantity(one.Value, resource.NewQuantity(fileCapacity, resource.BinarySI)).Value()
		if line > 0 { // one at 0 is never met, and evictd omits it
			lines = append(lines, fmt.Sprintf("%s<%d after %v", one.Signal, line, one.GracePeriod))
		}
	}
	slices.Sort(lines)
	return lines, kc.ImageGCHighThresholdPercent, nil
}

// fileCapacity is the capacity for percentages.
const fileCapacity = 107374182400

// evictdReads returns the same as evictd reads it, and the values that it does not
// understand.
func evictdReads(t *testing.T, path string) (lines []string, images pressure.Quantity, unread []string) {
	t.Helper()
	read, err := kubeletconfig.Read(path)
	must(t, err)
	for i := range read.Thresholds {
		one := &read.Thresholds[i]
		lines = append(lines, fmt.Sprintf("%s<%d after %v", one.Signal, one.Quantity.Of(fileCapacity), one.Grace))
	}
	slices.Sort(lines)
	return lines, read.ImageCollection, read.Unread
}

func writeKubeletFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Evictd reads the same from a kubelet's file as the kubelet, including defaults.
func TestKubeletsFileMeansTheSame(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing said":        "",
		"empty maps":          "evictionHard: {}\nevictionSoft: {}\n",
		"null":                "evictionHard: null\n",
		"amounts and shares":  "evictionHard: {memory.available: 1.5Gi, nodefs.available: 10.5%, pid.available: 5%, nodefs.inodesFree: '1000'}\n",
		"switched off":        "evictionHard: {memory.available: 0%, nodefs.available: 100%}\n",
		"merged":              "mergeDefaultEvictionSettings: true\nevictionHard: {nodefs.available: 20%, imagefs.available: 0%}\n",
		"soft":                "evictionSoft: {memory.available: 10%, nodefs.available: 15%}\nevictionSoftGracePeriod: {memory.available: 1m30s, nodefs.available: 0s}\n",
		"no limit on pods":    "enforceNodeAllocatable: [none]\n",
		"an empty list":       "enforceNodeAllocatable: []\n",
		"images":              "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 60\n",
		"images, never":       "imageGCHighThresholdPercent: 100\n",
		"allocatable by hand": "evictionHard: {allocatableMemory.available: 1Gi, memory.available: 2Gi}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeKubeletFile(t, kubeletHead+text)
			want, images, err := kubeletReads(t, path)
			must(t, err)
			got, ourImages, unread := evictdReads(t, path)
			available := pressure.Quantity{} // when the used share, rounded up, reaches the kubelet's
			if images < 100 {
				available = pressure.Fraction(float32(101-images) / 100)
			}
			if diff := cmp.Diff(want, got); diff != "" || available != ourImages || len(unread) != 0 {
				t.Errorf("images below %v, want %v; unread %q; thresholds (-kubelet +evictd):\n%s", ourImages, available, unread, diff)
			}
		})
	}
}

// Both reject a file in which a value has another type than its field.
func TestKubeletsFileIsRefusedTheSame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"evictionHard: {memory.available: 5}\n", "evictionHard: [1]\n", "evictionSoftGracePeriod: {memory.available: 30}\n",
		"imageGCHighThresholdPercent: many\n", "imageGCHighThresholdPercent: 3000000000\n", "enforceNodeAllocatable: pods\n", "clusterDNS: 10.0.0.10\n",
	} {
		path := writeKubeletFile(t, kubeletHead+text)
		_, _, theirs := kubeletReads(t, path)
		if _, ours := kubeletconfig.Read(path); theirs == nil || ours == nil {
			t.Errorf("%s: the kubelet says %v, evictd %v", text, theirs, ours)
		}
	}
}

// The same for generated thresholds: in a file that the kubelet starts with, the values that
// evictd understands mean the same, and evictd reports the others.
func TestKubeletsGrammarMeansTheSame(t *testing.T) {
	t.Parallel()
	files := slices.Concat(append(slices.Collect(maps.Values(texts())), ordinary())...)
	compared := 0
	for _, value := range files {
		text, err := json.Marshal(map[string]any{
			"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "enforceNodeAllocatable": []string{"none"},
			"evictionHard":            map[string]string{"memory.available": value, "nodefs.available": "5%"},
			"evictionSoft":            map[string]string{"memory.available": "50%", "pid.available": value},
			"evictionSoftGracePeriod": map[string]string{"memory.available": "1m", "pid.available": "30s"},
		})
		must(t, err)
		path := writeKubeletFile(t, string(text))
		want, _, err := kubeletReads(t, path)
		if err != nil {
			continue // the kubelet does not start with it
		}
		got, _, unread := evictdReads(t, path)
		want = slices.DeleteFunc(want, func(line string) bool {
			signal, _, _ := strings.Cut(line, "<")
			return slices.ContainsFunc(unread, func(entry string) bool { return strings.Contains(entry, signal) })
		})
		got = slices.DeleteFunc(got, func(line string) bool {
			signal, _, _ := strings.Cut(line, "<")
			return slices.ContainsFunc(unread, func(entry string) bool { return strings.Contains(entry, signal) })
		})
		if !slices.Equal(want, got) {
			t.Fatalf("%s: thresholds (-kubelet +evictd):\n%s", text, cmp.Diff(want, got))
		}
		compared += len(got)
	}
	if compared < len(files) {
		t.Errorf("only %d thresholds of %d files were compared", compared, len(files))
	}
}
