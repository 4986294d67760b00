package usage

import (
	"path/filepath"

	"github.com/evictd/evictd/internal/kernelfile"
)

// outdated is by how many bytes a pod's usage, which is of now, may differ from what its memory.stat adds up
// to. The kernel sums that file up every 2 s, and before where a group has many new charges, which it notes for
// the container's and not always for the pod's (memcg_rstat_updated). Kernel memory on v1 differs by more.
const outdated = 16 << 20

// memory returns the figures of the pod's memory, whose usage in bytes was read just before.
func (t *Tree) memory(p *podFiles, usage int64) (stat kernelfile.MemoryStat, err error) {
	stat, err = t.memoryStat(&p.stat)
	off := abs(usage - stat.Accounted())
	if err != nil || usage == 0 || off <= outdated {
		return stat, err
	}
	containers, err := t.containers(p)
	if err == nil && containers != nil && abs(usage-containers.Accounted()) < off {
		stat = *containers
	}
	return stat, err
}

func abs(n int64) int64 { return max(n, -n) }

func (t *Tree) memoryStat(file *kernelfile.File) (kernelfile.MemoryStat, error) {
	return kernelfile.Parse(file, t.content, func(content []byte) (kernelfile.MemoryStat, error) {
		return kernelfile.ParseMemoryStat(content, t.hierarchy.Unified)
	})
}

// containers returns the sum of the files of the pod's containers; nil where there is none.
func (t *Tree) containers(p *podFiles) (sum *kernelfile.MemoryStat, err error) {
	names, err := subdirectories(p.dir)
	for _, name := range names {
		file := kernelfile.File{Path: filepath.Join(p.dir, name, "memory.stat")}
		stat, fault := t.memoryStat(&file)
		file.Close()
		switch {
		case fault == nil && sum == nil:
			sum = &stat
		case fault == nil:
			sum.Add(&stat)
		case !missing(fault): // it has not ended
			return nil, fault
		}
	}
	return sum, err
}
