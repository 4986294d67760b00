package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/pkg/usage"
	"github.com/evictd/evictd/test/internal/measure"
)

// bench holds what was measured.
type bench struct {
	settings settings
	volume   *volume
	node     *node
	rows     []row
}

// row is one way of measuring, warm or cold.
type row struct {
	what  string
	cold  bool
	costs []cost
}

// cost is what one measurement took.
type cost struct {
	wall, cpu time.Duration
	read      int64 // bytes from the disk
}

// way is one way to measure the pods' usage.
type way struct {
	what string
	run  func(ctx context.Context) (cost, error)
}

func (b *bench) ways() []way {
	return []way{
		{"du -s", b.du},
		{"evictd", b.walk(1)},
	}
}

// budget is the default, in cores.
const budget = 0.2

// warm measures each way several times, alternating, after one unmeasured round.
func (b *bench) warm(ctx context.Context) error {
	ways := append(b.ways(), way{fmt.Sprintf("evictd, budget %g cores", budget), b.walk(budget)})
	if _, err := b.du(ctx); err != nil {
		return err
	}
	return b.rounds(ctx, ways, b.settings.rounds, false)
}

func (b *bench) coldly(ctx context.Context) error {
	return b.rounds(ctx, b.ways(), b.settings.cold, true)
}

func (b *bench) rounds(ctx context.Context, ways []way, rounds int, cold bool) error {
	if rounds == 0 {
		return nil
	}
	rows := make([]row, len(ways))
	for i, w := range ways {
		rows[i] = row{what: w.what, cold: cold}
	}
	for range rounds {
		for i, w := range ways {
			if cold {
				if err := b.volume.chill(ctx); err != nil {
					return err
				}
			}
			c, err := w.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", w.what, err)
			}
			rows[i].costs = append(rows[i].costs, c)
		}
	}
	b.rows = append(b.rows, rows...)
	return nil
}

// du runs the other program and returns its cost as the kernel counted it. It runs at the
// same priority as the walk; otherwise the two could not be compared on a busy machine.
func (b *bench) du(ctx context.Context) (cost, error) {
	c := exec.CommandContext(ctx, "nice", "-n", "10", "du", "-s", b.volume.root) //nolint:gosec // made by newVolume
	began := time.Now()
	out, err := c.CombinedOutput()
	wall := time.Since(began)
	if err != nil {
		return cost{}, fmt.Errorf("%w: %s", err, out)
	}
	spent := cost{wall: wall, cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
	if taken, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		spent.read = taken.Inblock * sectorSize
	}
	return spent, nil
}

const sectorSize = 512

func cpuOf(u *unix.Rusage) time.Duration {
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// walk is evictd's own way, from the search for the pods' files to the sums, with new
// buffers each time.
func (b *bench) walk(cores float64) func(ctx context.Context) (cost, error) {
	return func(ctx context.Context) (cost, error) {
		disk, err := usage.OpenNodeDisk(b.volume.root, cores)
		if err != nil {
			return cost{}, err
		}
		var before, after unix.Rusage
		if err = unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
			return cost{}, err
		}
		began := time.Now()
		uses, err := disk.Measure(ctx, began, b.node.pods)
		wall := time.Since(began)
		if err != nil {
			return cost{}, err
		}
		if err = unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
			return cost{}, err
		}
		if err = b.check(uses); err != nil {
			return cost{}, err
		}
		return cost{wall: wall, cpu: cpuOf(&after) - cpuOf(&before), read: (after.Inblock - before.Inblock) * sectorSize}, nil
	}
}

// check makes sure that nothing was left out.
func (b *bench) check(uses map[string]usage.DiskUse) error {
	inodes := int64(0)
	for uid, use := range uses {
		sum := use.NodeFS.Sum()
		if !sum.BytesKnown {
			return fmt.Errorf("pod %s: %s", uid, use.Reason)
		}
		inodes += sum.Inodes
	}
	if inodes != b.node.inodes {
		return fmt.Errorf("counted %d inodes of %d", inodes, b.node.inodes)
	}
	return nil
}

// table prints the medians, and each way relative to du.
func (b *bench) table() error {
	var rows [][]string
	for _, r := range b.rows {
		state := "warm"
		if r.cold {
			state = "cold"
		}
		median := middle(r.costs)
		du := b.row("du -s", r.cold)
		beside := middle(du.costs)
		rows = append(rows, []string{
			state, r.what, fmt.Sprint(len(r.costs)),
			seconds(median.wall), seconds(fastest(r.costs)), seconds(median.cpu),
			fmt.Sprintf("%.2f", median.cpu.Seconds()/median.wall.Seconds()),
			fmt.Sprintf("%.0f", float64(median.read)/(1<<20)),
			fmt.Sprintf("%.2f", beside.wall.Seconds()/median.wall.Seconds()),
			fmt.Sprintf("%.2f", fastest(du.costs).Seconds()/fastest(r.costs).Seconds()),
			fmt.Sprintf("%.2f", beside.cpu.Seconds()/median.cpu.Seconds()),
		})
	}
	header := []string{"cache", "what", "n", "median s", "fastest s", "CPU s", "cores", "MiB read", "du's median / its", "du's fastest / its", "du's CPU / its"}
	return measure.Table(os.Stdout, header, rows)
}

func (b *bench) row(what string, cold bool) row {
	return b.rows[slices.IndexFunc(b.rows, func(r row) bool { return r.what == what && r.cold == cold })]
}

// middle returns the cost with the median of each figure.
func middle(costs []cost) cost {
	pick := func(of func(*cost) float64) float64 { return measure.Median(measure.Each(costs, of)) }
	return cost{
		wall: time.Duration(pick(func(c *cost) float64 { return float64(c.wall) })),
		cpu:  time.Duration(pick(func(c *cost) float64 { return float64(c.cpu) })),
		read: int64(pick(func(c *cost) float64 { return float64(c.read) })),
	}
}

func fastest(costs []cost) time.Duration {
	return slices.MinFunc(costs, func(a, b cost) int { return int(a.wall - b.wall) }).wall
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }
