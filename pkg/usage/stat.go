package usage

import (
	"bytes"

	"github.com/evictd/evictd/internal/kernelfile"
)

// memoryStat holds the figures of a memory.stat that evictd uses, in bytes. Kernel is valid
// only with kernelKnown.
type memoryStat struct {
	anonymous, shared, inactiveFile, kernel int64
	kernelKnown                             bool
}

// The figures, by their places in statKeys. Those before figureKernel must be in every file.
const (
	figureAnonymous = iota
	figureShared
	figureInactiveFile
	figureKernel
	figureSlabReclaimable
	figureCount
)

// statKeys are the figures' names, each with the space that ends it. On cgroup v1 those that
// begin with "total_" include the groups below, which hold the containers, and there are none of
// kernel memory.
type statKeys []string

func keysOf(unified bool) statKeys {
	if unified {
		return statKeys{"anon ", "shmem ", "inactive_file ", "kernel ", "slab_reclaimable "}
	}
	return statKeys{"total_rss ", "total_shmem ", "total_inactive_file "}
}

// parse reads the figures. It ignores a line without an end: the last line may have been
// truncated within a number. Kernel memory is known where both of its figures exist: v2 has
// kernel since Linux 5.18.
func (k statKeys) parse(content []byte) (memoryStat, error) {
	content = content[:bytes.LastIndexByte(content, '\n')+1]
	kernelKnown := len(k) == figureCount
	var figures [figureCount]int64
	for f, key := range k {
		if f >= figureKernel && !bytes.Contains(content, []byte("\n"+key)) {
			kernelKnown = false
			continue
		}
		var err error
		if figures[f], err = kernelfile.Stat(content, key); err != nil {
			return memoryStat{}, err
		}
	}
	stat := memoryStat{
		anonymous: figures[figureAnonymous], shared: figures[figureShared], inactiveFile: figures[figureInactiveFile], kernelKnown: kernelKnown,
	}
	if kernelKnown { // the two are added up at different moments
		stat.kernel = max(0, figures[figureKernel]-figures[figureSlabReclaimable])
	}
	return stat, nil
}
