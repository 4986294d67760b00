package usage_test

import (
	"fmt"
	"os"
	"testing/fstest"

	"github.com/evictd/evictd/pkg/usage"
)

// The pods of a node are read below its cgroup mount, which is /sys/fs/cgroup on a real
// node.
func ExampleTree_Collect() {
	mount, err := os.MkdirTemp("", "cgroup")
	if err == nil {
		err = os.CopyFS(mount, fstest.MapFS{
			"cgroup.controllers":                        {Data: []byte("memory pids\n")},
			"kubepods/burstable/pod1b7c/memory.current": {Data: []byte("94371840\n")},
			"kubepods/burstable/pod1b7c/memory.stat":    {Data: []byte("anon 52428800\nfile 41943040\nshmem 10485760\ninactive_file 20971520\nactive_file 10485760\nslab_reclaimable 0\n")},
			"kubepods/burstable/pod1b7c/pids.current":   {Data: []byte("12\n")},
		})
	}
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
	pods, err := tree.Collect(nil, nil)
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
