package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFine  = 0
	exitFault = 1
	exitUsage = 2
)

// exitError ends the program with a code; the command has said why already.
type exitError struct{ code int }

// Error returns the code in words.
func (e exitError) Error() string { return "exit code " + strconv.Itoa(e.code) }

// usageError is a fault in how the command was called.
type usageError struct{ err error }

// Error returns the fault.
func (e usageError) Error() string { return e.err.Error() }

// Unwrap returns the fault.
func (e usageError) Unwrap() error { return e.err }

// usageArgs makes a fault in the arguments a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
