package usage

import "github.com/evictd/evictd/internal/kernelfile"

// memoryStat are the figures of a memory.stat that matter here, in bytes.
type memoryStat struct{ anonymous, shared, inactiveFile int64 }

// statKeys are their names, each with the space that ends it. On cgroup v1 the
// figures that begin with "total_" include the groups below, which is where the
// containers are.
type statKeys struct{ anonymous, shared, inactiveFile string }

func keysOf(unified bool) statKeys {
	if unified {
		return statKeys{anonymous: "anon ", shared: "shmem ", inactiveFile: "inactive_file "}
	}
	return statKeys{anonymous: "total_rss ", shared: "total_shmem ", inactiveFile: "total_inactive_file "}
}

// parse reads the figures. All must be there, each on a line with an end: the last
// line may have been cut off in a number.
func (k *statKeys) parse(content []byte) (memoryStat, error) {
	anonymous, err := kernelfile.Stat(content, k.anonymous)
	if err != nil {
		return memoryStat{}, err
	}
	shared, err := kernelfile.Stat(content, k.shared)
	if err != nil {
		return memoryStat{}, err
	}
	inactiveFile, err := kernelfile.Stat(content, k.inactiveFile)
	if err != nil {
		return memoryStat{}, err
	}
	return memoryStat{anonymous: anonymous, shared: shared, inactiveFile: inactiveFile}, nil
}
