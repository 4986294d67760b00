package pressure_test

import (
	"fmt"
	"os"
	"testing/fstest"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
)

// A node with 500 MiB available is below a hard threshold of 1 GiB. Here it is a file of the
// example; without HostRoot it is this machine's.
func ExampleNode() {
	root, err := os.MkdirTemp("", "node")
	if err == nil {
		meminfo := "MemTotal: 8388608 kB\nMemFree: 204800 kB\nMemAvailable: 512000 kB\n"
		err = os.CopyFS(root, fstest.MapFS{"proc/meminfo": {Data: []byte(meminfo)}})
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)

	node, err := pressure.Open(pressure.Options{HostRoot: root, Signals: []pressure.Signal{pressure.MemoryAvailable}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	judge := pressure.NewJudge([]pressure.Threshold{
		{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(1 << 30), Hard: true},
	}, 0)
	sample := node.Sample(time.Now())
	verdict := judge.Judge(&sample)
	for _, p := range verdict.Pressures {
		fmt.Println(p.Threshold, "misses", p.Deficit()>>20, "MiB")
	}
	// Output:
	// memory.available<1073741824 (hard) misses 524 MiB
}
