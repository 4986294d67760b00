package usage

import (
	"cmp"
	"errors"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// Stall is how long a pod's tasks have waited for memory, and how often the pod met one of
// its own limits. Both only grow while the pod exists: use the difference between two
// readings.
type Stall struct {
	// UID is as in [Pod].
	UID string
	// Waited is how long at least one of its tasks waited, in microseconds. It is valid only
	// with WaitedKnown: only cgroup v2 accounts for it, and only where the kernel has
	// pressure-stall information.
	Waited      int64
	WaitedKnown bool
	// LimitHits counts how the pod and its containers met their own limits; it is larger than before
	// where one did. On cgroup v2 it is how often they met memory.max or memory.high. On v1 it is how often
	// they met memory.limit_in_bytes and, while one uses all of that, how often memory was charged to
	// it, which needs reclaim: the first does not count where the limit of memory and swap is the same
	// (Linux 6.18), as the kubelet sets it.
	LimitHits int64
}

// Stalls returns the stalls of each pod, in no particular order. It is called only while the
// node stalls, so it opens and closes the files each time. Pods that were removed meanwhile
// are left out, and errors are as of Collect. Call it from the goroutine that calls Collect.
func (t *Tree) Stalls() ([]Stall, error) {
	var stalls []Stall
	err := t.each(func(p *podFiles) error {
		stall, fault := t.readStall(p.uid, p.dir)
		if fault == nil {
			stalls = append(stalls, stall)
		}
		return fault
	})
	return stalls, err
}

func (t *Tree) readStall(uid, dir string) (Stall, error) {
	stall := Stall{UID: uid}
	var err error
	if !t.hierarchy.Unified {
		stall.LimitHits, err = t.limitHits1(dir)
		return stall, err
	}
	if stall.LimitHits, err = kernelfile.ParseOnce(filepath.Join(dir, "memory.events"), t.content, limitEvents); err != nil {
		return Stall{}, err
	}
	stall.Waited, err = kernelfile.ParseOnce(filepath.Join(dir, "memory.pressure"), t.content, func(content []byte) (int64, error) {
		return kernelfile.StallTotal(content, "some")
	})
	switch {
	case err == nil:
		stall.WaitedKnown = true
	case !missing(err) && !errors.Is(err, unix.EOPNOTSUPP):
		return Stall{}, err
	}
	return stall, nil
}

// limitEvents counts how often a group, or one below it, met its memory.max or
// memory.high (Documentation/admin-guide/cgroup-v2.rst, memory.events).
func limitEvents(content []byte) (int64, error) {
	high, err := kernelfile.Stat(content, "high ")
	if err != nil {
		return 0, err
	}
	most, err := kernelfile.Stat(content, "max ")
	return high + most, err
}

// limitHits1 returns LimitHits of a pod on cgroup v1, which counts for each group alone.
func (t *Tree) limitHits1(dir string) (int64, error) {
	containers, err := subdirectories(dir)
	if err != nil {
		return 0, err
	}
	sum, err := t.hitsOf(dir)
	for _, name := range containers {
		hits, fault := t.hitsOf(filepath.Join(dir, name))
		sum += hits
		if fault != nil && !missing(fault) {
			err = cmp.Or(err, fault)
		}
	}
	return sum, err
}

// hitsOf returns how one group on cgroup v1 met its limit. What was charged to a group alone is pgpgin of
// its memory.stat (Documentation/admin-guide/cgroup-v1/memory.rst).
func (t *Tree) hitsOf(dir string) (hits int64, err error) {
	figure := func(name string, parse func([]byte) (int64, error)) int64 {
		n, fault := kernelfile.ParseOnce(filepath.Join(dir, name), t.content, parse)
		err = cmp.Or(err, fault)
		return n
	}
	hits = figure("memory.failcnt", kernelfile.Number)
	used, limit := figure("memory.usage_in_bytes", kernelfile.Number), figure("memory.limit_in_bytes", kernelfile.Number)
	charged := figure("memory.stat", func(content []byte) (int64, error) { return kernelfile.Stat(content, "pgpgin ") })
	if err != nil {
		return 0, err
	}
	if used >= limit-limit/32 { // reclaim keeps it somewhat below
		hits += charged
	}
	return hits, nil
}
