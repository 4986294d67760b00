package disk

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/pkg/usage"
)

// The layout of a pod's files: most in the writable layer, twenty per directory, four
// directories deep.
const (
	partsOfPod    = 3
	layerShare    = 0.60
	volumeShare   = 0.38
	filesInDir    = 20
	dirsInDir     = 8
	everyWithData = 10 // one file of that many has a block
	oneBlock      = 4096
)

// node is a tree that looks like a node's, with its pods.
type node struct {
	root   string
	pods   []usage.NodePod
	inodes int64 // of the pods
}

// plant creates the files of the pods, and the data that locates them.
func plant(tb testing.TB, root string, pods, files int) *node {
	tb.Helper()
	n := &node{root: root}
	var mounts strings.Builder
	for i := range pods {
		uid := fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
		container := fmt.Sprintf("%064x", i)
		n.pods = append(n.pods, usage.NodePod{UID: uid, Namespace: "bench", Name: fmt.Sprintf("pod-%d", i), Containers: []string{container}})
		layer := fmt.Sprintf("/var/lib/containerd/snapshots/%d/fs", i)
		fmt.Fprintf(&mounts, "%d 1 0:%d / /run/containerd/io.containerd.runtime.v2.task/k8s.io/%s/rootfs rw - overlay none rw,upperdir=%s\n",
			i+100, i+100, container, layer)
		share := files / pods
		if i < files%pods {
			share++
		}
		inLayer, inVolume := int(float64(share)*layerShare), int(float64(share)*volumeShare)
		for dir, part := range map[string]int{
			layer: inLayer,
			"/var/lib/kubelet/pods/" + uid + "/volumes/kubernetes.io~empty-dir/cache": inVolume,
			"/var/log/pods/bench_" + n.pods[i].Name + "_" + uid:                       share - inLayer - inVolume,
		} {
			n.inodes += fill(tb, filepath.Join(root, dir), part)
		}
	}
	proc := filepath.Join(root, "proc", "1")
	must(tb, os.MkdirAll(proc, 0o750))
	must(tb, os.WriteFile(filepath.Join(proc, "mountinfo"), []byte(mounts.String()), 0o600))
	unix.Sync() // otherwise the first measurement waits for the writes
	return n
}

// fill creates files, and returns how many inodes the folder has then, with its own.
func fill(tb testing.TB, dir string, files int) (inodes int64) {
	tb.Helper()
	must(tb, os.MkdirAll(dir, 0o750))
	data := make([]byte, oneBlock)
	at := ""
	for i := range files {
		if i%filesInDir == 0 {
			k := i / filesInDir
			at = filepath.Join(dir, fmt.Sprintf("lib-%d", k/(dirsInDir*dirsInDir)), fmt.Sprintf("module-%d", k/dirsInDir), fmt.Sprintf("dir-%d", k))
			must(tb, os.MkdirAll(at, 0o750))
		}
		content := data[:0]
		if i%everyWithData == 0 {
			content = data
		}
		must(tb, os.WriteFile(filepath.Join(at, fmt.Sprintf("some-file-%d.txt", i)), content, 0o600))
	}
	must(tb, filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
		inodes++
		return err
	}))
	return inodes
}
