package main

import (
	"errors"
	"fmt"
	"strconv"
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

// exitError ends the program with a code; the command has already printed the reason.
type exitError struct{ code int }

// Error returns the code in words.
func (e exitError) Error() string { return "exit code " + strconv.Itoa(e.code) }

// usageError is a mistake in the command line.
type usageError struct{ err error }

// Error returns the fault.
func (e usageError) Error() string { return e.err.Error() }

// Unwrap returns the fault.
func (e usageError) Unwrap() error { return e.err }

// noArguments rejects arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("%s takes no arguments and got %q (see %s --help)", cmd.Name(), args[0], cmd.CommandPath())}
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
	return usageError{fmt.Errorf("%sname a command: %s or %s (see %s --help)",
		wrong, strings.Join(names[:last], ", "), names[last], cmd.CommandPath())}
}

// flagFault says what is wrong with a flag and where the flags are listed.
func flagFault(cmd *cobra.Command, err error) error {
	if invalid, found := errors.AsType[*pflag.InvalidValueError](err); found {
		err = fmt.Errorf("--%s %q: not a %s", invalid.GetFlag().Name, invalid.GetValue(), invalid.GetFlag().Value.Type())
	}
	return usageError{fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())}
}
