package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/node"
)

// What the demo needs.
const (
	// buildNeeds is the disk that a first build has taken for Go's caches and the binaries, in bytes.
	buildNeeds = 11 << 30
	// runNeeds is the disk of the node's folder, in bytes.
	runNeeds = 1 << 30
	// memoryNeeds is what must be available, in bytes: 2.8 GiB of the pods, 1.5 of a replacement beside
	// its victim, and the node's own.
	memoryNeeds = 6 << 30
)

// check says what the demo does, how long it takes and what it needs. It fails where that is
// not there, before minutes of building.
func check(to io.Writer, bin string) error {
	takes := startsIn
	for _, s := range scenes() {
		takes += s.takes
	}
	text := "make demo, on this machine:\n"
	disk := int64(runNeeds)
	if missing := len(cluster.Missing(bin, true)); missing > 0 {
		disk = buildNeeds
		text += fmt.Sprintf("  builds a Kubernetes node from Go modules: %d programs, about 10 minutes on 2 cores, once\n", missing)
	}
	text += fmt.Sprintf("  starts the node and shows evictd on it: about %v, in %d scenes\n  removes everything again, but not what was built in bin/\n",
		takes.Round(10*time.Second), len(scenes())+1)
	text += fmt.Sprintf("It needs %d GiB of disk and %d GiB of memory.\n", disk>>30, memoryNeeds>>30)
	if _, err := io.WriteString(to, text); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return enough(bin, disk)
}

// enough fails where disk or memory is not there.
func enough(bin string, disk int64) error {
	free, err := freeOn(bin)
	if err != nil {
		return err
	}
	if free < disk {
		return fmt.Errorf("the filesystem of %s has %d MiB left, and the demo needs %d: free some, or put the checkout on another one", bin, free>>20, disk>>20)
	}
	memory, err := node.MemoryAvailable()
	if err != nil {
		return err
	}
	if memory < memoryNeeds {
		return fmt.Errorf("%d MiB of memory are available, and the demo needs %d: end other programs first", memory>>20, memoryNeeds>>20)
	}
	return nil
}

// freeOn returns what is available on the filesystem of a folder, in bytes. The folder need not exist.
func freeOn(folder string) (int64, error) {
	for {
		if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
			break
		}
		folder = filepath.Dir(folder)
	}
	return node.SpaceAvailable(folder)
}
