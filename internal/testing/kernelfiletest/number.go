package kernelfiletest

import (
	"strings"
	"testing"
)

// CheckNumber compares a parsed number or its error with what is wanted: wantErr is a part
// of the error's text, "" for none. No error comes with a number.
func CheckNumber(tb testing.TB, got int64, err error, want int64, wantErr string) {
	tb.Helper()
	switch {
	case wantErr == "" && (err != nil || got != want):
		tb.Errorf("got %d, %v; want %d", got, err, want)
	case wantErr != "" && err == nil:
		tb.Errorf("got %d; want an error with %q", got, wantErr)
	case wantErr != "" && !strings.Contains(err.Error(), wantErr):
		tb.Errorf("got the error %q; want one with %q", err, wantErr)
	case wantErr != "" && got != 0:
		tb.Errorf("got %d beside the error %q", got, err)
	}
}
