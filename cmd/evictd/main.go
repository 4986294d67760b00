// Command evictd watches one Kubernetes node for pressure and evicts pods through
// the Eviction API before the kubelet or the kernel has to.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, newRootCommand())
	stop()
	os.Exit(code)
}

// run executes the command and returns the exit code: 0 fine, 1 fault, 2 usage.
func run(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	if exit, said := errors.AsType[exitError](err); said {
		return exit.code
	}
	_, _ = fmt.Fprintf(root.ErrOrStderr(), "evictd: %v\n", err) // nowhere is left to report to
	if _, wrongCall := errors.AsType[usageError](err); wrongCall {
		return exitUsage
	}
	return exitFault
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "evictd",
		Short:         "Evicts pods of a node under pressure, gently and early",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("name a command: run, rank, config or version (see %s --help)", cmd.Name())}
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newRunCommand(), newRankCommand(), newConfigCommand(), newVersionCommand())
	return root
}
