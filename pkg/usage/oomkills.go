package usage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/kernelfile"
)

// How kills are detected.
const (
	// killsPace is the shortest interval between two reads of the kernel's events. A pod
	// that meets its limit causes up to a hundred events a second, and hardly any of them is
	// a kill.
	killsPace = time.Second
	// killsAgain is the delay after a fault before the group is watched again, and the
	// interval at which its existence is checked.
	killsAgain = 10 * time.Second
)

// OOMKill says that the OOM killer has killed processes of a pod.
type OOMKill struct {
	// UID is as in [Pod].
	UID string
	// Count is how many processes it has killed since the previous report for this pod.
	Count int64
}

// OOMKills detects OOM kills in the pods' cgroups, on cgroup v2. On v1 the count of a killed
// container is removed with its cgroup, before it can be read.
type OOMKills struct {
	mount, kubepods string
	classes         [3]class
	pace, again     time.Duration // which tests shorten

	total int64            // of all pods together, at the last read of the pods
	known map[string]int64 // by UID; unknownKills for one that could not be read yet
}

// unknownKills stands for a count that could not be read when the watch began: the first
// count that can be read is not reported.
const unknownKills = -1

// ErrOnlyUnified is why kills are not detected on cgroup v1.
var ErrOnlyUnified = errors.New("following the pods' OOM kills: cgroup v1 keeps no count of a container that has ended")

var errKubepodsGone = errors.New("the pods' cgroup has gone")

// NewOOMKills returns an OOMKills for a kubepods cgroup, which is relative to the cgroup
// mount. It fails on cgroup v1.
func NewOOMKills(mount, kubepods string) (*OOMKills, error) {
	h, err := kernelfile.HierarchyOf(mount)
	if err != nil {
		return nil, err
	}
	if !h.Unified {
		return nil, ErrOnlyUnified
	}
	kubepods = path.Join("/", kubepods)
	return &OOMKills{mount: mount, kubepods: kubepods, classes: classesOf(kubepods), pace: killsPace, again: killsAgain}, nil
}

// Run reports every kill until the context ends, and every fault that prevents a report,
// after which it continues. It does not report kills from before its start.
func (k *OOMKills) Run(ctx context.Context, tell func(OOMKill), failed func(error)) {
	for {
		err := k.follow(ctx, tell)
		if ctx.Err() != nil {
			return
		}
		failed(fmt.Errorf("following the pods' OOM kills: %w", err))
		if !wait(ctx, k.again) {
			return
		}
	}
}

// wait reports whether the time has passed before the context ended.
func wait(ctx context.Context, span time.Duration) bool {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// follow watches the group until a fault or the context ends it.
func (k *OOMKills) follow(ctx context.Context, tell func(OOMKill)) error {
	inode, err := inodeOf(filepath.Join(k.mount, k.kubepods))
	if err != nil {
		return err
	}
	events, err := k.open()
	if err != nil {
		return err
	}
	defer events.Close()                                          //nolint:errcheck // nothing was written
	defer context.AfterFunc(ctx, func() { _ = events.Close() })() // which ends a read
	for {
		if err := k.look(tell); err != nil {
			return err
		}
		if !wait(ctx, k.pace) {
			return ctx.Err()
		}
		if err := k.await(events, inode); err != nil {
			return err
		}
	}
}

// open watches the events of the pods' cgroup, which include those of every group below it.
func (k *OOMKills) open() (*os.File, error) {
	fd, err := memoryEvents(k.mount, k.kubepods)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // otherwise Close does not end a read
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "the events of "+k.kubepods), nil
}

// await returns when there was an event. The kernel does not always report that a group was
// removed, so await checks that from time to time.
func (k *OOMKills) await(events *os.File, inode uint64) error {
	buffer := make([]byte, 4096)
	for {
		if err := events.SetReadDeadline(time.Now().Add(k.again)); err != nil { //nolint:forbidigo // a deadline of the runtime's, no decision
			return err
		}
		_, err := events.Read(buffer)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if now, err := inodeOf(filepath.Join(k.mount, k.kubepods)); err != nil || now != inode {
			return errors.Join(errKubepodsGone, err)
		}
	}
}

// look reports the kills since the previous call. It reads the pods only where the count of
// all of them together has changed. With an error, it reports the pods that could be read,
// and the others once they can be read.
func (k *OOMKills) look(tell func(OOMKill)) error {
	total, err := killsIn(k.mount, k.kubepods)
	if err != nil || k.known != nil && total == k.total {
		return err
	}
	counts, err := k.pods()
	if counts == nil {
		return err
	}
	for uid, count := range counts {
		if count == unknownKills {
			if before, seen := k.known[uid]; seen {
				counts[uid] = before
			}
		} else if news := k.news(uid, count); news > 0 {
			tell(OOMKill{UID: uid, Count: news})
		}
	}
	k.known = counts
	if err == nil {
		k.total = total
	} else {
		k.total = unknownKills // so that they are read again
	}
	return err
}

// news returns how many of a pod's kills have not been reported.
func (k *OOMKills) news(uid string, count int64) int64 {
	before := k.known[uid]
	switch {
	case k.known == nil || before == unknownKills:
		return 0
	case count < before: // the group was recreated: a static pod keeps its UID
		return count
	default:
		return count - before
	}
}

// pods returns the count of each pod, and unknownKills for one that could not be read, which
// the error names. A pod that is removed meanwhile is left out. Where not all pods could be
// listed there are no counts: an unlisted pod may still exist.
func (k *OOMKills) pods() (map[string]int64, error) {
	counts := map[string]int64{}
	var faults UnreadError
	for i := range k.classes {
		c := &k.classes[i]
		names, err := subdirectories(filepath.Join(k.mount, k.kubepods, c.dir))
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if !c.holds([]byte(name)) {
				continue
			}
			uid := c.uid(name)
			count, err := killsIn(k.mount, path.Join(k.kubepods, c.dir, name))
			switch {
			case err == nil:
				counts[uid] = count
			case !missing(err):
				counts[uid] = unknownKills
				faults.pod(uid, err)
			}
		}
	}
	return counts, faults.orNil()
}
