package kubeletconfig_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/internal/testing/must"
	"github.com/evictd/evictd/pkg/pressure"
)

const kubeletHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// writeKubelet writes a kubelet's configuration, with drop-ins by name.
func writeKubelet(t *testing.T, text string, dropIns map[string]string) string {
	t.Helper()
	files := kernelfiletest.Tree{"config.yaml": text}
	for name, content := range dropIns {
		files["config.yaml.d/"+name] = content
	}
	return filepath.Join(files.Plant(t), "config.yaml")
}

// written writes thresholds as text, to compare them.
func written(k *kubeletconfig.Configuration) []string {
	var texts []string
	for _, t := range k.Thresholds {
		text := t.String()
		if t.Grace > 0 {
			text += " " + t.Grace.String()
		}
		texts = append(texts, text)
	}
	return texts
}

// collectionOf returns what is available when the used share of the images' filesystem reaches a whole percentage.
func collectionOf(high int) (available pressure.Quantity) {
	if high < 100 {
		available = pressure.Fraction(float32(101-high) / 100)
	}
	return available
}

// What the kubelet itself makes of one file, and which types it refuses, is compared in test/parity.
func TestReadKubelet(t *testing.T) {
	t.Parallel()
	defaults := []string{
		"memory.available<104857600 (hard)", "allocatableMemory.available<104857600 (hard)", "nodefs.available<10% (hard)",
		"nodefs.inodesFree<5% (hard)", "imagefs.available<15% (hard)", "imagefs.inodesFree<5% (hard)",
	}
	for _, test := range []struct {
		name    string
		text    string // "" has the directory of drop-ins alone, as a kubelet with --config-dir and without --config
		dropIns map[string]string
		want    []string
		high    int
		unread  int
	}{
		{"JSON", `{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","evictionHard":{"nodefs.available":"1Gi"},"imageGCHighThresholdPercent":70}`, nil, []string{"nodefs.available<1073741824 (hard)"}, 70, 0},
		{"names are in their exact spelling", kubeletHead + "EvictionHard: {}", nil, defaults, 85, 0},
		{
			"soft ones", kubeletHead + "evictionHard: {}\nevictionSoft: {nodefs.available: 20%, imagefs.available: 20%}\nevictionSoftGracePeriod: {nodefs.available: 1m30s, imagefs.available: 0s}", nil,
			[]string{"imagefs.available<20% (hard)", "nodefs.available<20% (soft) 1m30s"},
			85, 0,
		},
		{
			"drop-ins in their order, and no other files",
			kubeletHead + "evictionHard: {nodefs.available: 1Gi, imagefs.available: 2Gi}",
			map[string]string{
				"10-a.conf": kubeletHead + "evictionHard: {nodefs.available: 2Gi}", "20-b.conf": kubeletHead + "evictionHard: {nodefs.available: 3Gi, imagefs.available: null}\nimageGCHighThresholdPercent: 100\nevictionPressureTransitionPeriod: null",
				"30-c.yaml": kubeletHead + "evictionHard: {nodefs.available: 4Gi}",
			},
			[]string{"nodefs.available<3221225472 (hard)"},
			100, 0,
		},
		{
			"a drop-in is merged over the defaults, and cannot bring them back", kubeletHead,
			map[string]string{"a.conf": kubeletHead + "evictionHard: null\nmergeDefaultEvictionSettings: true"},
			nil, 85, 0,
		},
		{
			"a drop-in makes the kubelet forget an empty list",
			kubeletHead + "enforceNodeAllocatable: []\nevictionHard: {memory.available: 1Gi}",
			map[string]string{"a.conf": kubeletHead + "imageGCHighThresholdPercent: null"},
			[]string{"memory.available<1073741824 (hard)", "allocatableMemory.available<1073741824 (hard)"},
			85, 0,
		},
		{
			"drop-ins alone have no defaults", "",
			map[string]string{
				"00-k3s-defaults.conf": kubeletHead + "evictionHard: {nodefs.available: 5%, imagefs.available: 5%}",
				"99-own.conf":          kubeletHead + "evictionHard: {memory.available: 4Gi, imagefs.available: 6%}",
			},
			[]string{
				"memory.available<4294967296 (hard)", "allocatableMemory.available<4294967296 (hard)", "nodefs.available<5% (hard)", "imagefs.available<6% (hard)",
			},
			85, 0,
		},
		{
			"what cannot be understood counts for nothing",
			kubeletHead + "evictionHard: {memory.available: lots, nodefs.available: 120%, imagefs.available: null, memory.stall: 5%, pid.available: NaN%, nodefs.inodesFree: 10%%, unknown: 1Gi}\n" +
				"evictionSoft: {nodefs.inodesFree: 10%, imagefs.inodesFree: 10%}\nevictionSoftGracePeriod: {imagefs.inodesFree: -1s}\nimageGCHighThresholdPercent: 101\nsomethingNew: {a: 1}",
			nil, nil, 100, 10,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := writeKubelet(t, test.text, test.dropIns)
			if test.text == "" {
				path += ".d"
			}
			got, err := kubeletconfig.Read(path)
			must.Succeed(t, err)
			if diff := cmp.Diff(test.want, written(got)); diff != "" {
				t.Errorf("thresholds (-want +got):\n%s", diff)
			}
			if got.ImageCollection != collectionOf(test.high) || len(got.Unread) != test.unread {
				t.Errorf("image collection below %v, want it at %d; %d entries unread, want %d: %q", got.ImageCollection, test.high, len(got.Unread), test.unread, got.Unread)
			}
			for name := range test.dropIns {
				if strings.Contains(strings.Join(got.Files, " "), name) != strings.HasSuffix(name, ".conf") {
					t.Errorf("files %q, drop-in %q", got.Files, name)
				}
			}
		})
	}
}

// An empty directory is what a runtime makes where a file should be mounted. A link without its target is there: the
// kubelet may see what it leads to.
func TestReadKubeletRefusesWhatIsNone(t *testing.T) {
	t.Parallel()
	text := func(text string) string { return writeKubelet(t, text, nil) }
	link := func(path string) string {
		must.Succeed(t, os.Symlink("/nowhere/x", path))
		return path
	}
	pipe := filepath.Join(t.TempDir(), "config.yaml")
	must.Succeed(t, unix.Mkfifo(pipe, 0o600))
	linked := writeKubelet(t, kubeletHead, map[string]string{"a.conf": kubeletHead})
	link(filepath.Join(linked+".d", "b.conf"))
	for name, test := range map[string]struct{ path, want string }{
		"empty":                     {text(""), "config.yaml"},
		"a NUL byte":                {text("a\x00b"), "config.yaml"},
		"not UTF-8":                 {text("\xff\xfe"), "config.yaml"},
		"not YAML":                  {text("a: ["), "config.yaml"},
		"a list":                    {text("[1]"), "config.yaml"},
		"too large":                 {text(kubeletHead + strings.Repeat("#", 1<<20)), "config.yaml"},
		"only a kind":               {text("kind: KubeletConfiguration"), "config.yaml"},
		"a list for a map":          {text(kubeletHead + "evictionSoftGracePeriod: [1]"), "config.yaml"},
		"a kubeconfig":              {text("apiVersion: v1\nkind: Config\n"), `not a KubeletConfiguration: it says apiVersion "v1" and kind "Config"`},
		"no file":                   {filepath.Join(t.TempDir(), "none"), "none"},
		"an empty directory":        {t.TempDir(), "it is a directory without files that end with .conf"},
		"a pipe":                    {pipe, "it is not a regular file"},
		"a device":                  {os.DevNull, "it is not a regular file"},
		"a broken drop-in":          {writeKubelet(t, kubeletHead, map[string]string{"a.conf": "kind: Other"}), "a.conf"},
		"a link without its target": {link(filepath.Join(t.TempDir(), "config.yaml")), `it is a link to "/nowhere/x"`},
		"a drop-in that is one":     {linked, `it is a link to "/nowhere/x"`},
	} {
		_, err := kubeletconfig.Read(test.path)
		if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, os.ErrNotExist) != (name == "no file") {
			t.Errorf("%s: %v, want a fault with %q", name, err, test.want)
		}
	}
}

// FuzzKubelet: whatever the file holds, no threshold is outside of what a node has.
func FuzzKubelet(f *testing.F) {
	f.Add(kubeletHead + "evictionHard: {memory.available: 1Gi, nodefs.available: 5%}")
	f.Add(kubeletHead + "evictionSoft: {nodefs.available: 10%%}\nevictionSoftGracePeriod: {nodefs.available: -1s}")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := kubeletconfig.Read(writeKubelet(t, text, nil))
		if err != nil {
			return
		}
		for _, one := range got.Thresholds {
			if line := one.Quantity.Of(1 << 40); line < 0 || one.Grace < 0 || one.Hard != (one.Grace == 0) || one.Signal >= pressure.SignalCount {
				t.Errorf("threshold %v with %v", one, one.Grace)
			}
		}
		if share := got.ImageCollection.Of(1 << 40); share < 0 || share > 1<<40 {
			t.Errorf("image collection below %d", share)
		}
	})
}
