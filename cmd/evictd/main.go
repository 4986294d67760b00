// Command evictd monitors one Kubernetes node for pressure and evicts pods through the
// Eviction API before the kubelet or the OOM killer has to act.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Exit codes.
const (
	exitFine  = 0
	exitFault = 1
	exitUsage = 2
)

// fault is the error of a command that has begun. All others are mistakes in the command line.
type fault struct{ error }

// errReported ends a command that has said itself what is wrong.
var errReported = errors.New("the fault is reported")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, newRootCommand(klog.SetLogger))
	stop()
	os.Exit(code)
}

// run executes the command, which prints its error, and returns the exit code.
func run(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	if _, begun := errors.AsType[fault](err); begun {
		return exitFault
	}
	return exitUsage
}

// newRootCommand returns the command line. It passes the logger of `evictd run` to clientGo:
// client-go keeps it for the whole process, so that only main may set it.
func newRootCommand(clientGo func(klog.Logger)) *cobra.Command {
	root := &cobra.Command{
		Use: "evictd", Short: "Evicts pods of a node under pressure, gently and early", SilenceUsage: true, RunE: group,
	}
	root.SetErrPrefix("evictd:")
	root.AddCommand(newRunCommand(clientGo), newRankCommand(), newStatusCommand(), newDoctorCommand(), newConfigCommand(), newVersionCommand())
	root.InitDefaultCompletionCmd()
	if completion, _, err := root.Find([]string{"completion"}); err == nil {
		completion.RunE = group
	}
	return root
}

// newCommand returns a command that takes no arguments, unless its caller changes that.
func newCommand(use, short string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil {
			return nil
		}
		cmd.SilenceErrors = errors.Is(err, errReported)
		return fault{err}
	}}
}

// group is a command that has only others: without one of them it is a mistake, and no call for help.
func group(cmd *cobra.Command, _ []string) error {
	return fmt.Errorf("name a command; %s --help lists them", cmd.CommandPath())
}
