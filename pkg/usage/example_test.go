package usage_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/pkg/usage"
)

// The pods of a node are read below its cgroup mount, which is /sys/fs/cgroup on a real
// node.
func ExampleTree_Collect() {
	mount, err := planted(map[string]string{
		"cgroup.controllers":                        "memory pids\n",
		"kubepods/burstable/pod1b7c/memory.current": "94371840\n",
		"kubepods/burstable/pod1b7c/memory.stat":    "anon 52428800\nfile 41943040\nshmem 10485760\ninactive_file 20971520\n",
		"kubepods/burstable/pod1b7c/pids.current":   "12\n",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(mount)

	kubepods, err := usage.FindKubepods(mount, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := usage.Open(mount, kubepods)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tree.Close()
	pods, err := tree.Collect(nil)
	if err != nil {
		fmt.Println("without these:", err) // the others are in pods
	}
	const mi = 1 << 20
	for _, p := range pods {
		fmt.Println(p.UID, "working set", p.WorkingSet/mi, "MiB, its end frees", p.Reclaim()/mi, "MiB,", p.Tasks, "tasks")
	}
	// Output:
	// 1b7c working set 70 MiB, its end frees 60 MiB, 12 tasks
}

// planted writes files below a new directory.
func planted(files map[string]string) (root string, err error) {
	if root, err = os.MkdirTemp("", "cgroup"); err != nil {
		return "", err
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return root, err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return root, err
		}
	}
	return root, nil
}
