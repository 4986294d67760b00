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

// settings are the flags.
type settings struct {
	dir    string
	pods   int
	files  int
	rounds int
	cold   int
}

func main() { os.Exit(measure.Run("disk", run)) }

func parse(arguments []string) (settings, error) {
	const pods, files, rounds, cold = 110, 1_000_000, 5, 3
	var s settings
	flags := flag.NewFlagSet("disk", flag.ContinueOnError)
	flags.StringVar(&s.dir, "dir", os.TempDir(), "where the tree is made, on a real disk with 6 GB free")
	flags.IntVar(&s.pods, "pods", pods, "pods")
	flags.IntVar(&s.files, "files", files, "files of all pods together")
	flags.IntVar(&s.rounds, "rounds", rounds, "warm measurements of each; their median is shown")
	flags.IntVar(&s.cold, "cold", cold, "cold measurements of each; none without root")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if s.pods < 1 || s.files < s.pods*partsOfPod || s.rounds < 1 {
		return s, fmt.Errorf("at least one pod, %d files for each, and one round", partsOfPod)
	}
	if os.Geteuid() != 0 {
		s.cold = 0
	}
	return s, nil
}

func run(ctx context.Context, arguments []string) (err error) {
	s, err := parse(arguments)
	if err != nil {
		return err
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
