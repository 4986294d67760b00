package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes.
const (
	exitFine  = 0
	exitFault = 1
	exitUsage = 2
)

// exitError ends the program with a code.
type exitError struct {
	code  int
	fault error // nil where the command has already printed the reason
}

// Error returns the fault, and else the code.
func (e exitError) Error() string { return cmp.Or(e.fault, fmt.Errorf("exit code %d", e.code)).Error() }

// usageError is a mistake in the command line.
func usageError(fault error) error { return exitError{exitUsage, fault} }

// noArguments rejects arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("%s takes no arguments and got %q (see %s --help)", cmd.Name(), args[0], cmd.CommandPath()))
}

// newCommand returns a command that takes no arguments, and for which a shell completes none.
func newCommand(use, short string, run func(*cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: noArguments, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) },
	}
}

// oneOf returns the error for a missing or unknown subcommand.
func oneOf(cmd *cobra.Command, args []string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	wrong := ""
	if len(args) > 0 {
		wrong = fmt.Sprintf("no command %q: ", args[0])
	}
	last := len(names) - 1
	return usageError(fmt.Errorf("%sname a command: %s or %s (see %s --help)",
		wrong, strings.Join(names[:last], ", "), names[last], cmd.CommandPath()))
}

// flagFault says what is wrong with a flag and where the flags are listed.
func flagFault(cmd *cobra.Command, err error) error {
	if invalid, found := errors.AsType[*pflag.InvalidValueError](err); found {
		flag, why := invalid.GetFlag(), invalid.Unwrap()
		if _, word := flag.Value.(*choice); !word {
			why = errors.New("not a " + flag.Value.Type())
		}
		err = fmt.Errorf("--%s %q: %w", flag.Name, invalid.GetValue(), why)
	}
	return usageError(fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath()))
}
