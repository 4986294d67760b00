package sim

import (
	"flag"
	"testing"
	"testing/synctest"
)

// InTime runs f with a clock of its own, which stands while something is computed and goes on to the next moment that
// f's goroutines wait for: ten minutes of a node take less than a second. It is that of testing/synctest, the only one that
// knows when all goroutines wait, so that the very agent runs; testing.Main is how a program other than a test has it. A
// process may call it once. f must not wait for anything outside, such as a context of its caller's. A test that calls it
// does so in a bubble of its own.
func InTime(f func() error) error {
	if testing.Testing() {
		return f()
	}
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil { // the flags of a test, at their defaults
		return err
	}
	ended := make(chan error, 1)
	matches := func(string, string) (bool, error) { return true, nil }
	go testing.Main(matches, []testing.InternalTest{{Name: "simulation", F: func(t *testing.T) { //nolint:thelper // it is no helper
		var err error
		synctest.Test(t, func(*testing.T) { err = f() })
		ended <- err
		select {} // testing.Main would end the process
	}}}, nil, nil)
	return <-ended
}
