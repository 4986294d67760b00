package measure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Run is the main function of a benchmark's program. It runs the benchmark until it is done,
// or an interrupt ends its context, prints its error and returns the exit code.
func Run(name string, run func(ctx context.Context, arguments []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}
