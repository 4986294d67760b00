package usage

import (
	"errors"
	"fmt"
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
	// LimitHits is how often the pod or one of its containers met its own memory.max
	// or memory.high, on cgroup v1 its memory.limit_in_bytes.
	LimitHits int64
	// AtLimit says that the pod or one of its containers uses all of its own limit, and Charges
	// how often memory was charged to its groups, which needs reclaim at the limit. Both are of
	// cgroup v1 alone: there, LimitHits does not count where the limit of memory and swap is the
	// same (Linux 6.18), as the kubelet sets it.
	AtLimit bool
	Charges int64
}

// MetLimit reports whether the pod met a limit of its own since an earlier reading.
func (s *Stall) MetLimit(before *Stall) bool {
	return s.LimitHits > before.LimitHits || s.AtLimit && s.Charges > before.Charges
}

// Stalls returns the stalls of each pod, in no particular order. It is called only while the
// node stalls, so it opens and closes the files each time. Pods that were removed meanwhile
// are left out. Pods that exist but could not be read are left out too and named by an
// [UnreadError], with which the others are still returned. Call it from the goroutine that
// calls Collect.
func (t *Tree) Stalls() ([]Stall, error) {
	if t.closed {
		return nil, errors.New("reading the pods' stalls: the tree is closed")
	}
	var stalls []Stall
	var faults UnreadError
	for _, c := range t.classes {
		names, err := subdirectories(c.path)
		if err != nil {
			faults.listing(err)
			continue
		}
		for _, name := range names {
			if !c.holds([]byte(name)) {
				continue
			}
			uid := c.uid(name)
			stall, err := t.readStall(uid, filepath.Join(c.path, name))
			switch {
			case err == nil:
				stalls = append(stalls, stall)
			case !missing(err):
				faults.pod(uid, err)
			}
		}
	}
	return stalls, faults.orNil()
}

func (t *Tree) readStall(uid, dir string) (Stall, error) {
	stall := Stall{UID: uid}
	var err error
	if !t.hierarchy.Unified {
		err = t.atLimits(&stall, dir)
		return stall, err
	}
	if stall.LimitHits, err = t.figure(filepath.Join(dir, "memory.events"), limitEvents); err != nil {
		return Stall{}, err
	}
	stall.Waited, err = t.figure(filepath.Join(dir, "memory.pressure"), someStalled)
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

// atLimits reads how a pod and its containers met their limits on cgroup v1, which counts for each
// group alone.
func (t *Tree) atLimits(stall *Stall, dir string) error {
	containers, err := subdirectories(dir)
	if err != nil {
		return err
	}
	if err := t.atLimit(stall, dir); err != nil {
		return err
	}
	for _, name := range containers {
		if err := t.atLimit(stall, filepath.Join(dir, name)); err != nil && !missing(err) {
			return err
		}
	}
	return nil
}

// atLimit adds what one group on cgroup v1 tells.
func (t *Tree) atLimit(stall *Stall, dir string) error {
	figures := [...]struct {
		file  string
		parse func([]byte) (int64, error)
		value int64
	}{
		{file: "memory.failcnt", parse: kernelfile.Number},
		{file: "memory.stat", parse: charges},
		{file: "memory.usage_in_bytes", parse: kernelfile.Number},
		{file: "memory.limit_in_bytes", parse: kernelfile.Number},
	}
	for i := range figures {
		f := &figures[i]
		var err error
		if f.value, err = t.figure(filepath.Join(dir, f.file), f.parse); err != nil {
			return err
		}
	}
	used, limit := figures[2].value, figures[3].value
	stall.LimitHits += figures[0].value
	stall.Charges += figures[1].value
	stall.AtLimit = stall.AtLimit || used >= limit-limit/32 // reclaim keeps it somewhat below
	return nil
}

// charges counts how often memory was charged to a group alone, as cgroup v1 tells it
// (Documentation/admin-guide/cgroup-v1/memory.rst, pgpgin).
func charges(content []byte) (int64, error) { return kernelfile.Stat(content, "pgpgin ") }

func someStalled(content []byte) (int64, error) { return kernelfile.StallTotal(content, "some") }

// figure opens a file, takes one figure from it and closes it.
func (t *Tree) figure(path string, parse func([]byte) (int64, error)) (int64, error) {
	file := kernelfile.New(path)
	defer file.Close()
	content, err := file.Read(t.content)
	if err != nil {
		return 0, err
	}
	n, err := parse(content)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", path, err)
	}
	return n, nil
}
