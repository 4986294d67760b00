package disk

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/pkg/usage"
	"github.com/evictd/evictd/test/internal/measure"
)

const (
	fullNode   = 110 // pods: what a kubelet takes by default
	budget     = 0.2 // cores, the default
	sectorSize = 512
)

// cost is what one measurement took.
type cost struct {
	wall, cpu time.Duration
	read      int64 // bytes from the disk
}

// BenchmarkWalk measures FILES files (a million) of 110 pods below DIR, on an ext4 of their own where it runs as
// root: only then the cache can be dropped without the machine's.
func BenchmarkWalk(b *testing.B) {
	files, err := strconv.Atoi(cmp.Or(os.Getenv("FILES"), "1000000"))
	if err != nil || files < fullNode*partsOfPod {
		b.Fatalf("FILES=%q: want at least %d", os.Getenv("FILES"), fullNode*partsOfPod)
	}
	v := newVolume(b, cmp.Or(os.Getenv("DIR"), os.TempDir()), files)
	n := plant(b, v.root, fullNode, files)
	b.Logf("%s; %d inodes, %s", measure.Machine(), n.inodes, v.kind())
	n.du(b) // so that the first one is as warm as the others
	ways := []struct {
		name string
		run  func(testing.TB) cost
	}{{"du", n.du}, {"evictd", n.walk(1)}, {"evictd-of-0.2-cores", n.walk(budget)}}
	for _, cache := range v.caches() {
		if cache == cold {
			ways = ways[:2] // the last would take minutes
		}
		for _, way := range ways {
			b.Run(cache+"/"+way.name, func(b *testing.B) {
				var costs []cost
				for b.Loop() {
					if cache == cold {
						b.StopTimer()
						v.chill(b)
						b.StartTimer()
					}
					costs = append(costs, way.run(b))
				}
				report(b, costs)
			})
		}
	}
}

// report reports the median of each figure, and the fastest time.
func report(b *testing.B, costs []cost) {
	b.Helper()
	pick := func(of func(*cost) float64) float64 { return measure.Median(measure.Each(costs, of)) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(pick(func(c *cost) float64 { return c.wall.Seconds() }), "s")
	b.ReportMetric(slices.MinFunc(costs, func(a, b cost) int { return cmp.Compare(a.wall, b.wall) }).wall.Seconds(), "s-fastest")
	b.ReportMetric(pick(func(c *cost) float64 { return c.cpu.Seconds() }), "s-CPU")
	b.ReportMetric(pick(func(c *cost) float64 { return float64(c.read) / (1 << 20) }), "MiB-read")
}

// du runs the other program and returns its cost as the kernel counted it. It runs at the
// same priority as the walk; otherwise the two could not be compared on a busy machine.
func (n *node) du(tb testing.TB) cost {
	tb.Helper()
	c := exec.CommandContext(context.WithoutCancel(tb.Context()), "nice", "-n", "10", "du", "-s", n.root)
	began := time.Now()
	out, err := c.CombinedOutput()
	wall := time.Since(began)
	if err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
	spent := cost{wall: wall, cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
	if taken, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		spent.read = taken.Inblock * sectorSize
	}
	return spent
}

// walk is evictd's own way, from the search for the pods' files to the sums, with new
// buffers each time. Nothing may be left out.
func (n *node) walk(cores float64) func(testing.TB) cost {
	return func(tb testing.TB) cost {
		tb.Helper()
		disk, err := usage.OpenNodeDisk(n.root, cores)
		must(tb, err)
		var before, after unix.Rusage
		must(tb, unix.Getrusage(unix.RUSAGE_SELF, &before))
		began := time.Now()
		uses, err := disk.Measure(tb.Context(), began, n.pods)
		wall := time.Since(began)
		must(tb, err)
		must(tb, unix.Getrusage(unix.RUSAGE_SELF, &after))
		inodes := int64(0)
		for uid, use := range uses {
			sum := use.NodeFS.Sum()
			if !sum.BytesKnown {
				tb.Fatalf("pod %s: %s", uid, use.Reason)
			}
			inodes += sum.Inodes
		}
		if inodes != n.inodes {
			tb.Fatalf("counted %d inodes of %d", inodes, n.inodes)
		}
		return cost{wall: wall, cpu: cpuOf(&after) - cpuOf(&before), read: (after.Inblock - before.Inblock) * sectorSize}
	}
}

func cpuOf(u *unix.Rusage) time.Duration { return time.Duration(u.Utime.Nano() + u.Stime.Nano()) }

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
