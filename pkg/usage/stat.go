package usage

import (
	"bytes"
	"fmt"

	"github.com/evictd/evictd/internal/kernelfile"
)

// memoryStat are the figures of a memory.stat that matter here, in bytes. Kernel means
// nothing unless kernelKnown.
type memoryStat struct {
	anonymous, shared, inactiveFile, kernel int64
	kernelKnown                             bool
}

// figure is the place of a key and of its value in the arrays below.
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

// statKeys are the figures' names, each with the space that ends it; "" is not looked
// for. On cgroup v1 those that begin with "total_" include the groups below, which is
// where the containers are.
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

// statValues are the values that were found, and which of them.
type statValues struct {
	value [figureCount]int64
	found [figureCount]bool
}

// parse reads the figures, in one pass over the lines. Each counts on a line with an end
// only: the last line may have been cut off in a number. Kernel memory is known where
// both of its figures are there: cgroup v1 has neither, and v2 has kernel since Linux 5.18.
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

// take reads a line where it has one of the figures. The first of a name counts.
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
