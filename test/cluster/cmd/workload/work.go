package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// size is a number of bytes, written as a Kubernetes quantity: 200Mi, 1G, 4096.
type size int64

// String implements flag.Value.
func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }

// Set implements flag.Value.
func (s *size) Set(text string) error {
	number := strings.TrimRight(text, "kKMGTi")
	factor, known := map[string]int64{
		"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
	}[text[len(number):]]
	value, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !known || value < 0 || value > int64(1<<62)/factor {
		return fmt.Errorf("parsing size %q: want a number with Ki, Mi, Gi, Ti, k, M, G, T or nothing", text)
	}
	*s = size(value * factor)
	return nil
}

// awaitFile waits until a file of that name exists, in which $NAME is that variable; without a name it
// returns at once. It polls often, because a benchmark measures the time from the file's creation.
func awaitFile(name string) error {
	const often = time.Millisecond
	for name = os.ExpandEnv(name); name != ""; {
		_, err := os.Stat(name)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("waiting for a file: %w", err)
		}
		sleep(often)
	}
	return nil
}

const (
	pageSize  = 4096
	chunkSize = 1 << 20
)

// memory is anonymous memory from the kernel, outside Go's heap, a part of which is in use.
type memory struct {
	mapped []byte
	held   int
	random uint64
}

// mapMemory reserves memory, none of which is in use yet.
func mapMemory(total size) (*memory, error) {
	mapped, err := syscall.Mmap(-1, 0, int(total), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("taking memory: %w", err)
	}
	return &memory{mapped: mapped, random: seed()}, nil
}

// hold increases the used part to upTo. It fills it with numbers that neither zswap nor page
// merging can compress. It keeps the rate chunk by chunk against the
// clock, and faults in a chunk's pages at once: a fault for each page uses most of a core at
// 1 GB/s.
func (m *memory) hold(upTo int, rate size) {
	paced, from := pace{begin: now(), rate: rate}, m.held
	for ; m.held < upTo; m.held = min(m.held+chunkSize, upTo) {
		paced.await(size(m.held - from))
		chunk := m.mapped[m.held:min(m.held+chunkSize, upTo)]
		_ = unix.Madvise(chunk, unix.MADV_POPULATE_WRITE) // without it (Linux < 5.14) fill faults them in
		m.random = fill(chunk, m.random)
	}
}

// drop gives the last bytes of the used part back to the kernel, as a garbage collection does, in whole chunks.
func (m *memory) drop(bytes int) error {
	keeps := max(m.held-bytes, 0) / chunkSize * chunkSize
	if err := unix.Madvise(m.mapped[keeps:m.held], unix.MADV_DONTNEED); err != nil {
		return fmt.Errorf("giving memory back: %w", err)
	}
	m.held = keeps
	return nil
}

// seed differs between workloads: equal numbers would be equal pages.
func seed() uint64 {
	return uint64(now().UnixNano()) ^ uint64(os.Getpid()) | 1 //nolint:gosec // neither is negative
}

// fill writes the numbers of an xorshift generator, about 2 GB/s.
func fill(chunk []byte, random uint64) uint64 {
	const word = 8
	for at := 0; at+word <= len(chunk); at += word {
		random ^= random << 13
		random ^= random >> 7
		random ^= random << 17
		binary.LittleEndian.PutUint64(chunk[at:], random)
	}
	if len(chunk)%pageSize > 0 {
		chunk[len(chunk)-1] = 1 // the last page, when it holds less than a word
	}
	return random
}

// writeFiles spreads total bytes over files: PATH, or PATH-0, PATH-1 … when
// there are several. Each is complete on the disk when it is closed.
func writeFiles(path string, total size, count int) error {
	random, share := seed(), int64(total)/int64(count)
	for i := range count {
		name, length := path, share
		if count > 1 {
			name += "-" + strconv.Itoa(i)
		}
		if i == count-1 {
			length = int64(total) - share*int64(count-1)
		}
		var err error
		if random, err = writeFile(name, length, random); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

func writeFile(name string, length int64, random uint64) (_ uint64, err error) {
	file, err := os.Create(name) //nolint:gosec // the caller's own path
	if err != nil {
		return random, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if length == 0 {
		return random, nil
	}
	chunk := make([]byte, min(length, chunkSize))
	for ; length > 0; length -= int64(len(chunk)) {
		chunk = chunk[:min(length, int64(len(chunk)))]
		random = fill(chunk, random)
		if _, err := file.Write(chunk); err != nil {
			return random, err
		}
	}
	return random, file.Sync()
}

// keepCached creates a file that has no blocks on its disk, and reads it repeatedly. All of
// it is then in the page cache, and, after the second read, in the active part, which it
// reports once.
func keepCached(name string, total size, cached func() error) (err error) {
	const (
		untilActive = 3
		rest        = time.Second
	)
	file, err := os.Create(name) //nolint:gosec // the caller's own path
	if err != nil {
		return fmt.Errorf("making the file to be cached: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(int64(total)); err != nil {
		return fmt.Errorf("making the file to be cached: %w", err)
	}
	chunk := make([]byte, chunkSize)
	for times := 1; ; times++ {
		_, err := file.Seek(0, io.SeekStart)
		for err == nil {
			_, err = file.Read(chunk)
		}
		if !errors.Is(err, io.EOF) {
			return fmt.Errorf("reading the file to be cached: %w", err)
		}
		if times == untilActive {
			if err := cached(); err != nil {
				return err
			}
		}
		if times >= untilActive {
			sleep(rest)
		}
	}
}
