package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/memory"
)

const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30

	// standIn is the memory of the node that the machine stands in for. Below its end the
	// machine still has memory, so that no scenario endangers what else runs on it.
	standIn = 6 * gibibyte
	// floor is what the machine keeps available, whatever happens.
	floor = 4 * gibibyte
	// spare is what the rest of the machine may use more during a series: the ballast gives
	// way to it.
	spare = 2 * gibibyte
	// needed is what must be available before the start. Above the floor there must be room for
	// the page cache of the machine: the kubelet's figure of the whole machine does not count
	// what of it is active.
	needed = floor + 2*gibibyte + standIn + spare
)

// lines are the thresholds, in bytes: the defaults of both for a node of the stand-in's size.
type lines struct {
	// End is what MemAvailable is when the stand-in node has nothing left. Hard and Soft are evictd's
	// 5% and 10% of the stand-in, above it.
	End, Hard, Soft int64
	// Kubelet is the kubelet's own default, 100Mi, of what the limit of all pods leaves. That
	// is the line that the kubelet draws by itself on a node that reserves memory for its
	// system (allocatableMemory.available), and only pods affect it.
	Kubelet int64
}

// room is the memory of the stand-in node: it puts the node at a distance from its end, and
// keeps what the rest of the machine does from being a part of the incident.
type room struct {
	ballast *memory.Ballast
	group   string       // the pods' cgroup, once the node runs
	unified bool         // it is of cgroup v2
	limited atomic.Int64 // its limit in bytes, as it was set
}

// place makes that much available.
func (r *room) place(ctx context.Context, want int64) error {
	err := r.ballast.Place(ctx, func() (int64, error) {
		kernel, err := memory.Kernel()
		return kernel - want, err
	})
	if err != nil {
		return fmt.Errorf("placing the node: %w", err)
	}
	return nil
}

// limit gives the pods' cgroup a limit at the stand-in node's end, so that the kernel ends
// processes there as it would on a node of that size, and the machine keeps the rest. Negative
// is none.
func (r *room) limit(bytes int64) error {
	r.limited.Store(bytes)
	text := strconv.FormatInt(bytes, 10)
	if bytes < 0 && r.unified {
		text = "max"
	}
	if err := os.WriteFile(r.file("memory.limit_in_bytes", "memory.max"), []byte(text), 0o600); err != nil {
		return fmt.Errorf("limiting the pods of the node: %w", err)
	}
	return nil
}

// stillLimited makes sure that nothing else has changed the limit meanwhile.
func (r *room) stillLimited() error {
	now, err := number(r.file("memory.limit_in_bytes", "memory.max"))
	if err == nil && now/pageSize != r.limited.Load()/pageSize {
		return fmt.Errorf("limiting the pods of the node: something else has set their limit to %d bytes", now)
	}
	return err
}

// file returns a file of the pods' cgroup, by its name in either version.
func (r *room) file(v1, v2 string) string {
	if r.unified {
		return filepath.Join(r.group, v2)
	}
	return filepath.Join(r.group, v1)
}

// number reads a file with one number.
func number(file string) (int64, error) {
	text, err := os.ReadFile(file) //nolint:gosec // of the node's own cgroup
	if err != nil {
		return 0, fmt.Errorf("reading the pods' cgroup: %w", err)
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the pods' cgroup: %s: %w", filepath.Base(file), err)
	}
	return value, nil
}

const pageSize = 4096

// podsLeft returns what the limit of all pods leaves by the kubelet's definition: the limit less
// their working set, in bytes. Without a limit it is meaningless.
func (r *room) podsLeft() (int64, error) {
	// The kubelet reads in that order: memory.stat makes the kernel add up its counts.
	stat, err := os.ReadFile(filepath.Join(r.group, "memory.stat"))
	if err != nil {
		return 0, fmt.Errorf("reading the pods' memory: %w", err)
	}
	usage, err := number(r.file("memory.usage_in_bytes", "memory.current"))
	inactive := "total_inactive_file"
	if r.unified {
		inactive = "inactive_file"
	}
	return r.limited.Load() - max(0, usage-measure.SumOf(string(stat), inactive)), err
}

// findGroup finds the cgroup of the node's pods.
func (r *room) findGroup() error {
	for _, pattern := range []string{"/sys/fs/cgroup/memory/evictd-node-*/kubepods", "/sys/fs/cgroup/evictd-node-*/kubepods"} {
		if found, _ := filepath.Glob(pattern); len(found) == 1 { // the patterns are well-formed
			r.group = found[0]
			_, other := os.Stat(filepath.Join(r.group, "memory.limit_in_bytes"))
			r.unified = other != nil
			return nil
		}
	}
	return errors.New("looking for the cgroup of the node's pods: there is none, or more than one")
}

// held is what the pods hold that their end gives back, in bytes, by two figures of the kernel: byKind adds
// up anonymous, shared and the kernel's memory, byUsage takes the page cache from all that is charged. The
// kernel adds up its kinds as much as two seconds late: byKind is late where pods take or end, byUsage where
// page cache comes or goes.
type held struct{ byKind, byUsage int64 }

func (r *room) pods() (held, error) {
	text, err := os.ReadFile(filepath.Join(r.group, "memory.stat"))
	if err != nil {
		return held{}, fmt.Errorf("reading the pods' memory: %w", err)
	}
	stat := string(text)
	usage, err := number(r.file("memory.usage_in_bytes", "memory.current"))
	if err != nil {
		return held{}, err
	}
	if r.unified {
		kinds := measure.SumOf(stat, "anon", "shmem", "slab_unreclaimable", "pagetables", "kernel_stack")
		return held{kinds, usage - measure.SumOf(stat, "file", "slab_reclaimable") + measure.SumOf(stat, "shmem")}, nil
	}
	kernel, err := number(filepath.Join(r.group, "memory.kmem.usage_in_bytes"))
	shared := measure.SumOf(stat, "total_shmem")
	return held{measure.SumOf(stat, "total_rss") + shared + kernel, usage - measure.SumOf(stat, "total_cache") + shared}, err
}

// keeper holds what the rest of the machine uses at what it was when the incident began: the
// ballast gives way to it, and takes its place. So a build on the same machine crosses no line.
type keeper struct {
	room *room
	host func() int64 // what the bench's own host processes hold
	base use
	// limit is that of the pods when the incident began. What a host process takes of the
	// stand-in node is not the pods' any more.
	limit int64
	// off is by how much the rest of the machine was off at most, in bytes, before the ballast gave way.
	off int64
}

// use is what was available and what pods and host processes held at a moment, in bytes.
type use struct {
	available int64
	pods      held
	host      int64
}

func (k *keeper) use() (use, error) {
	kernel, err := memory.Kernel()
	pods, unread := k.room.pods()
	return use{kernel, pods, k.host()}, errors.Join(err, unread)
}

// foreign returns by how much more is available than the pods and the bench's own processes
// account for; negative when the rest of the machine uses more. It is what both figures of the pods
// say at least, because a late one is no other work.
func (u use) foreign(now use) int64 {
	others := now.available - u.available + (now.host - u.host)
	kinds, usage := others+now.pods.byKind-u.pods.byKind, others+now.pods.byUsage-u.pods.byUsage
	return max(min(kinds, usage), 0) + min(max(kinds, usage), 0)
}

const keeperEvery = 25 * time.Millisecond

// correct does so once.
func (k *keeper) correct(time.Time) error {
	const slack, atOnce = 2 * memory.Block, 8 * memory.Block
	now, err := k.use()
	if err != nil {
		return err
	}
	off := k.base.foreign(now)
	k.off = max(k.off, off, -off)
	err = k.share(now.host)
	if err == nil && (off > slack || off < -slack) {
		err = k.room.ballast.Set(max(0, k.room.ballast.Size()+min(max(off, -atOnce), atOnce)))
	}
	return err
}

// share takes what host processes hold from the pods' limit.
func (k *keeper) share(host int64) error {
	const step = 4 * mebibyte
	limit := k.limit - host
	if off := k.room.limited.Load() - limit; off < step && off > -step {
		return nil
	}
	return k.room.limit(limit)
}
