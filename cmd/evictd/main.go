// Command evictd monitors one Kubernetes node for pressure and evicts pods through the
// Eviction API before the kubelet or the OOM killer has to act.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, newRootCommand(klog.SetLogger))
	stop()
	os.Exit(code)
}

// run executes the command and returns the exit code: 0 fine, 1 fault, 2 usage.
func run(ctx context.Context, root *cobra.Command) int {
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.Args, completion.RunE = cobra.ArbitraryArgs, oneOf
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	exit, of := errors.AsType[exitError](err)
	switch {
	case !of:
		exit.code = exitFault
	case exit.fault == nil:
		return exit.code
	}
	for line := range strings.Lines(err.Error()) { // several faults are several lines
		_, _ = fmt.Fprintf(root.ErrOrStderr(), "evictd: %s\n", strings.TrimRight(line, "\n")) // the last resort
	}
	return exit.code
}

// newRootCommand returns the command line. It passes the logger of `evictd run` to clientGo:
// client-go keeps it for the whole process, so that only main may set it.
func newRootCommand(clientGo func(klog.Logger)) *cobra.Command {
	root := &cobra.Command{
		Use:           "evictd",
		Short:         "Evicts pods of a node under pressure, gently and early",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // oneOf reports what is wrong with them
		RunE:          oneOf,
	}
	root.SetFlagErrorFunc(flagFault)
	root.AddCommand(newRunCommand(clientGo), newRankCommand(), newStatusCommand(), newDoctorCommand(), newConfigCommand(), newVersionCommand())
	return root
}
