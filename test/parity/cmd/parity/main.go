// Command parity compares evictd's order with the kubelet's on generated node states, and
// prints the smallest of the states with an unnamed difference.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/evictd/evictd/test/parity"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(1)
	}
}

func run() error {
	states := flag.Int("states", 100000, "how many states to compare")
	seed := flag.Uint64("seed", 0, "the first state's seed; 0 takes one from the clock")
	flag.Parse()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// The states become garbage right after the comparison, and there is enough memory.
	debug.SetGCPercent(400)
	fmt.Printf("seed %d; again: go run ./cmd/parity -states %d -seed %d\n", *seed, *states, *seed)
	result, err := parity.Run(ctx, *seed, *states, nil)
	if err != nil {
		return err
	}
	if result.Failed > 0 {
		text, err := parity.Explain(result.Smallest, result.Faults)
		if err != nil {
			return err
		}
		fmt.Printf("%d states differ; the smallest of them:\n%s\n", result.Failed, text)
	}
	if err := result.Print(os.Stdout); err != nil {
		return err
	}
	if result.Failed > 0 {
		return errors.New("comparing: evictd and the kubelet differ without a name")
	}
	return nil
}
