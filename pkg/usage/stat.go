package usage

import (
	"bytes"
	"fmt"

	"github.com/evictd/evictd/internal/kernelfile"
)

// memoryStat holds the figures of a memory.stat that evictd uses, in bytes. Kernel is valid
// only with kernelKnown.
type memoryStat struct {
	anonymous, shared, inactiveFile, kernel int64
	kernelKnown                             bool
}

// figure is the index of a key and of its value in the arrays below.
type figure int

// The figures. Those before figureKernel must be in every file.
const (
	figureAnonymous figure = iota
	figureShared
	figureInactiveFile
	figureKernel
	figureSlabReclaimable
	figureCount
)

// statKeys are the figures' names, each with the space that ends it; "" is skipped. On
// cgroup v1 those that begin with "total_" include the groups below, which hold the
// containers.
type statKeys [figureCount]string

func keysOf(unified bool) statKeys {
	if unified {
		return statKeys{
			figureAnonymous: "anon ", figureShared: "shmem ", figureInactiveFile: "inactive_file ",
			figureKernel: "kernel ", figureSlabReclaimable: "slab_reclaimable ",
		}
	}
	return statKeys{figureAnonymous: "total_rss ", figureShared: "total_shmem ", figureInactiveFile: "total_inactive_file "}
}

// statValues are the values, and which of them were found.
type statValues struct {
	value [figureCount]int64
	found [figureCount]bool
}

// parse reads the figures, in one pass over the lines. It ignores a line without an end: the
// last line may have been truncated within a number. Kernel memory is known where both of
// its figures exist: cgroup v1 has neither, and v2 has kernel since Linux 5.18.
func (k *statKeys) parse(content []byte) (memoryStat, error) {
	var s statValues
	for len(content) > 0 {
		end := bytes.IndexByte(content, '\n')
		if end < 0 {
			break
		}
		if err := k.take(&s, content[:end]); err != nil {
			return memoryStat{}, err
		}
		content = content[end+1:]
	}
	for f := range figureKernel {
		if !s.found[f] {
			return memoryStat{}, fmt.Errorf("no line %q", k[f])
		}
	}
	stat := memoryStat{anonymous: s.value[figureAnonymous], shared: s.value[figureShared], inactiveFile: s.value[figureInactiveFile]}
	if s.found[figureKernel] && s.found[figureSlabReclaimable] {
		// The two are added up at different moments.
		stat.kernel, stat.kernelKnown = max(0, s.value[figureKernel]-s.value[figureSlabReclaimable]), true
	}
	return stat, nil
}

// take reads a line if it has one of the figures. The first line of a name counts.
func (k *statKeys) take(s *statValues, line []byte) error {
	for f, key := range k {
		if s.found[f] || key == "" || len(line) < len(key) || string(line[:len(key)]) != key {
			continue
		}
		n, rest, err := kernelfile.LeadingNumber(line[len(key):])
		if err == nil && len(rest) > 0 {
			err = kernelfile.ErrTrailing
		}
		if err != nil {
			return fmt.Errorf("line %q: %w", key, err)
		}
		s.value[f], s.found[f] = n, true
		return nil
	}
	return nil
}
