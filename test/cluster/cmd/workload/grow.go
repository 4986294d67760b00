package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// growth is a file that uses more and more of its disk, without data: its blocks are allocated
// and never written.
type growth struct {
	path    string
	total   size
	rate    size // in bytes each second; 0 is all at once
	deleted bool // the name is removed first
}

// run allocates the blocks, reports that once, and keeps the file open: it returns only after an
// error. A full disk is none.
func (g growth) run(grown func() error) (err error) {
	file, err := os.Create(g.path)
	if err != nil {
		return fmt.Errorf("making the file that grows: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if g.deleted {
		if err := os.Remove(g.path); err != nil {
			return fmt.Errorf("deleting the file that grows: %w", err)
		}
	}
	if err := g.allocate(file); err != nil {
		return fmt.Errorf("allocating blocks of %s: %w", g.path, err)
	}
	if err := grown(); err != nil {
		return err
	}
	for { // the file stays open
		sleep(time.Hour)
	}
}

func (g growth) allocate(file *os.File) error {
	const step, again = 4 * chunkSize, time.Second
	paced := pace{begin: now(), rate: g.rate}
	for at := size(0); at < g.total; {
		length := min(step, g.total-at)
		if g.rate == 0 {
			length = g.total
		}
		paced.await(at)
		err := unix.Fallocate(int(file.Fd()), 0, int64(at), int64(length))
		switch {
		case errors.Is(err, unix.ENOSPC):
			sleep(again)
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		}
		at += length
	}
	return nil
}

// pace is a rate since a moment, in bytes each second; 0 is no limit.
type pace struct {
	begin time.Time
	rate  size
}

// await waits until so many bytes are due.
func (p pace) await(done size) {
	if p.rate > 0 {
		due := p.begin.Add(time.Duration(float64(done) / float64(p.rate) * float64(time.Second)))
		sleep(due.Sub(now()))
	}
}

// printLines prints that many bytes of lines at a rate, each slightly shorter than the length at
// which a container runtime splits.
func printLines(out io.Writer, total, rate size) error {
	const length = 8 << 10
	line, paced := bytes.Repeat([]byte("x"), length), pace{begin: now(), rate: rate}
	for done := size(0); done < total; done += size(len(line)) {
		line = line[:min(total-done, length)]
		line[len(line)-1] = '\n'
		paced.await(done)
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}
