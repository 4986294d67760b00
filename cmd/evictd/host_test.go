package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/testing/kernelfiletest"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// The gap between the two definitions of memory.available is read at most once a second, and
// is 0 where one of them is unknown.
func TestKubeletGap(t *testing.T) {
	t.Parallel()
	root := kernelfiletest.Tree{
		"proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 500 kB\n", "sys/fs/cgroup/cgroup.controllers": "memory\n",
	}.Plant(t)
	uses := func(cache int) { // in place: the file stays open
		stat := fmt.Sprintf("anon 512000\nfile %d\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\nshmem 0\n", cache)
		must(t, os.WriteFile(filepath.Join(root, "sys/fs/cgroup/memory.stat"), []byte(stat), 0o600))
	}
	if gap := (&host{flags: &runFlags{hostRoot: root}}).kubeletGap(); gap(time.Now()) != 0 {
		t.Error("there is a gap to what is not there")
	}
	uses(300)
	gap, start := (&host{flags: &runFlags{hostRoot: root}}).kubeletGap(), time.Unix(1000, 0)
	look := func(after time.Duration, want int64) {
		t.Helper()
		if got := gap(start.Add(after)); got != want {
			t.Errorf("after %v: %d, want %d", after, got, want)
		}
	}
	look(0, 300)
	uses(500)
	look(999*time.Millisecond, 300)
	look(time.Second, 500)
	uses(700)
	look(-time.Minute, 700) // the clock was set back
	uses(-1)
	look(0, 0)
}

// TestReadyOnlyWhereThePodsAre: evictd is not ready below a kubepods cgroup that has none of the
// pods that run.
func TestReadyOnlyWhereThePodsAre(t *testing.T) {
	t.Parallel()
	node := &patient{t: t, root: t.TempDir()}
	node.put("cgroup.controllers", "memory pids\n")
	node.putPod("kubepods/burstable/podu1", "")
	tree, err := usage.Open(node.root, "/kubepods")
	must(t, err)
	d := &daemon{host: &host{kubepods: "/kubepods", tree: tree}}
	runs := func(uid string) *nodepods.Pod { return &nodepods.Pod{CgroupUID: uid, RunningContainers: []string{"c"}} }
	for name, test := range map[string]struct {
		pods []*nodepods.Pod
		says string
	}{
		"no pods":            {nil, ""},
		"none that runs":     {[]*nodepods.Pod{{CgroupUID: "u2"}}, ""},
		"one is not there":   {[]*nodepods.Pod{runs("u2"), runs("u1")}, ""},
		"none of them is":    {[]*nodepods.Pod{runs("u2"), runs("u3")}, "none of the 2 pods that run here has a cgroup below /kubepods"},
		"it cannot be known": {[]*nodepods.Pod{runs("")}, "is no UID"},
	} {
		if err := d.findsPods(test.pods); (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

// TestPolicyKnowsTheKubelet: the policy has the kubelet's configuration, of which the soft thresholds are no hard ones.
// Where that is not known it has the kubelet's defaults for images, and no thresholds.
func TestPolicyKnowsTheKubelet(t *testing.T) {
	t.Parallel()
	root := kernelfiletest.Tree{
		"var/lib/kubelet/config.yaml": kubeletFile("2Gi") + "imageGCHighThresholdPercent: 75\n" +
			"evictionSoft: {nodefs.available: 20%}\nevictionSoftGracePeriod: {nodefs.available: 1m}\n",
	}.Plant(t)
	read, err := kubeletconfig.Read(filepath.Join(root, "var/lib/kubelet/config.yaml"))
	must(t, err)
	policy := (&daemon{flags: &runFlags{hostRoot: root}}).policyOf(config.Default())
	var hard []pressure.Signal
	for _, threshold := range policy.KubeletHard {
		hard = append(hard, threshold.Signal)
	}
	want := []pressure.Signal{pressure.MemoryAvailable, pressure.AllocatableMemoryAvailable}
	if !reflect.DeepEqual(policy.Kubelet, *read) || !slices.Equal(hard, want) {
		t.Errorf("%+v", policy)
	}
	policy = (&daemon{flags: &runFlags{hostRoot: t.TempDir()}}).policyOf(config.Default())
	kubelet := policy.Kubelet
	if policy.KubeletHard != nil || len(kubelet.Thresholds) != 6 || !reflect.DeepEqual(kubelet, *kubeletconfig.Default()) {
		t.Errorf("of an unknown kubelet: %+v", policy)
	}
}
