// Command disk measures the count of the pods' files, and `du -s` on the same tree in the
// same run: 110 pods with a million files by default, on its own ext4 where it runs as root,
// otherwise in a temporary directory. `make bench-disk` runs it. It removes everything that
// it creates.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// settings are how much is measured.
type settings struct {
	dir          string
	pods, files  int
	rounds, cold int // warm and cold measurements of each way
}

func main() { os.Exit(measure.Run("disk", run)) }

func run(ctx context.Context, arguments []string) error {
	s := settings{pods: 110, rounds: 5, cold: 3} // the pods of a full node; the medians of so many are shown
	flags := flag.NewFlagSet("disk", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", os.TempDir(), "where the tree is made, on a real disk with 6 GB free")
	flags.IntVar(&s.files, "files", 1_000_000, "files of all pods together")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		s.cold = 0
	}
	return compare(ctx, s)
}

// compare makes the tree, measures it in each way and prints the table.
func compare(ctx context.Context, s settings) (err error) {
	if s.files < s.pods*partsOfPod {
		return fmt.Errorf("at least %d files for each of %d pods", partsOfPod, s.pods)
	}
	v, err := newVolume(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.remove(context.WithoutCancel(ctx))) }()
	fmt.Printf("%s\nmaking %d files of %d pods below %s (%s)\n", measure.Machine(), s.files, s.pods, s.dir, v.kind())
	began := time.Now()
	n, err := plant(ctx, v.root, s.pods, s.files)
	if err != nil {
		return err
	}
	fmt.Printf("made %d inodes in %s\n\n", n.inodes, time.Since(began).Round(time.Second))
	b := bench{settings: s, volume: v, node: n}
	if err := b.warm(ctx); err != nil {
		return err
	}
	if err := b.coldly(ctx); err != nil {
		return err
	}
	return b.table()
}
