// Command evictd monitors one Kubernetes node for pressure and evicts pods through the
// Eviction API before the kubelet or the OOM killer has to act.
package main

import (
	"context"
	_ "embed" // of the examples
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
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
		Use: "evictd", Short: "Evicts pods of a node under pressure, gently and early",
		SilenceUsage: true, SuggestionsMinimumDistance: 2,
	}
	root.SetErrPrefix("evictd:")
	// Cobra's own flag needs text/template for this line, and with that the linker leaves 6 MB of methods in.
	asks := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *asks {
			return printVersion(cmd, args)
		}
		return group(cmd, args)
	}
	root.AddCommand(newRunCommand(clientGo), newRankCommand(), newStatusCommand(), newDoctorCommand(), newConfigCommand(),
		newSimulateCommand(), newIncidentsCommand(), newReplayCommand(), newRecordCommand(),
		newCommand("version", "Print the version", printVersion))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Name() == "help":
			cmd.RunE = printHelp // cobra's own succeeds with any word
		case cmd.HasSubCommands() && cmd.RunE != nil: // it lists
			cmd.Args, cmd.SuggestionsMinimumDistance = noSuchCommand, root.SuggestionsMinimumDistance
		case cmd.HasSubCommands():
			cmd.RunE, cmd.Args, cmd.SuggestionsMinimumDistance = group, noSuchCommand, root.SuggestionsMinimumDistance
		}
	}
	addExamples(root)
	return root
}

// printHelp prints the help of the command that the arguments name.
func printHelp(cmd *cobra.Command, args []string) error {
	of, rest, _ := cmd.Root().Find(args) // what is left over is the error
	if err := noSuchCommand(of, rest); err != nil {
		return err
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// noSuchCommand refuses arguments, and suggests other commands as cobra does for the first word of a command line.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %q for %q; %s", args[0], cmd.CommandPath(), hint)
}

// newCommand returns a command that takes no arguments, unless its caller changes that.
func newCommand(use, short string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	var words *strings.Replacer
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs}
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) (err error) {
		words, err = fromEnvironment(cmd.Flags())
		return err
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil {
			return nil
		}
		cmd.SilenceErrors = errors.Is(err, errReported)
		return fault{errors.New(words.Replace(err.Error()))}
	}
	return cmd
}

// group is a command that has only others: without one of them it is a mistake, and no call for help.
func group(cmd *cobra.Command, _ []string) error {
	return fmt.Errorf("name a command; %s --help lists them", cmd.CommandPath())
}

// examples are those of --help: of each command the lines that begin with it.
//
//go:embed examples.txt
var examples string

// addExamples adds them to a command and to those below it.
func addExamples(cmd *cobra.Command) {
	for line := range strings.Lines(examples) {
		if strings.HasPrefix(strings.TrimSpace(line)+" ", cmd.CommandPath()+" ") {
			cmd.Example += "  " + line
		}
	}
	cmd.Example = strings.TrimSuffix(cmd.Example, "\n")
	for _, below := range cmd.Commands() {
		addExamples(below)
	}
}
