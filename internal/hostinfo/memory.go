package hostinfo

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/kernelfile"
)

// Parts returns what the node's memory is used by, in the order in which it is reported. No byte counts
// twice.
func Parts() []decide.Part {
	return []decide.Part{
		"Anonymous",         // the processes' own memory, of pods and of the host, as far as it is not locked
		"Shared",            // tmpfs (emptyDirs in memory too) and memory that processes share
		"PageCache",         // the content of files; the kernel gives most of it back when it is needed
		"Buffers",           // the cache of block devices and of filesystems' metadata
		"SlabReclaimable",   // kernel objects that can be dropped, such as cached names of files
		"SlabUnreclaimable", // kernel objects that cannot
		"PageTables",        // what maps processes' memory
		"HugePages",         // the pools of huge pages, used or not
		decide.PartOther,    // all else: kernel stacks, drivers, per-CPU memory, locked memory
	}
}

// Memory reads what the node's memory is used by, in bytes: each of [Parts], which together are what is not
// free. All of it is known, or none.
func (r *Reader) Memory() (decide.Breakdown, error) {
	m := readMeminfo(r.path("proc/meminfo"))
	// The lists of anonymous pages have shared memory too, and so has the page cache.
	total, shared := m.figure("MemTotal"), m.figure("Shmem")
	used, rest := decide.Breakdown{}, total-m.figure("MemFree")
	if rest < 0 {
		m.fail(errors.New("more is free than there is"))
	}
	for i, amount := range []int64{
		max(0, m.figure("Active(anon)")+m.figure("Inactive(anon)")-shared),
		shared,
		max(0, m.figure("Cached")-shared),
		m.figure("Buffers"),
		m.figure("SReclaimable"),
		m.figure("SUnreclaim"),
		m.figure("PageTables"),
		m.take(kernelfile.HugePages(m.content)),
	} {
		part := Parts()[i]
		if amount > total {
			m.fail(fmt.Errorf("%s is %d of %d bytes", part, amount, total))
		}
		used[part], rest = amount, max(0, rest-amount) // the figures are not of one moment
	}
	used[decide.PartOther] = rest
	if m.err != nil {
		return nil, fmt.Errorf("reading what the memory is used by: %w", m.err)
	}
	return used, nil
}

// meminfo is /proc/meminfo, with the first fault that was found in it.
type meminfo struct {
	content []byte
	err     error
}

func readMeminfo(path string) *meminfo {
	const most = 16 << 10 // more than it has, in bytes
	file := kernelfile.New(path)
	defer file.Close()
	content, err := file.Read(make([]byte, most))
	if err == nil && !bytes.HasSuffix(content, []byte("\n")) {
		err = fmt.Errorf("reading %s: %w", path, kernelfile.ErrTruncated)
	}
	return &meminfo{content, err}
}

func (m *meminfo) fail(err error) { m.err = cmp.Or(m.err, err) }

// figure returns one in bytes.
func (m *meminfo) figure(name string) int64 { return m.take(kernelfile.Meminfo(m.content, name+":")) }

func (m *meminfo) take(figure int64, err error) int64 {
	m.fail(err)
	return figure
}
