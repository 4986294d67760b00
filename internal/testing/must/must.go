// Package must ends a test where its set-up has failed.
package must

import (
	"errors"
	"testing"
)

// Succeed ends the test where something failed.
func Succeed(tb testing.TB, errs ...error) {
	tb.Helper()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
}
