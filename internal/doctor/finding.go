// Package doctor says, line by line, whether evictd has what it needs on its node and at the API
// server: what is there, what follows where it is not, and what to do.
//
// A check is a function from what it needs to its findings. The list in checks.go has all of them
// in the order of the output; to add one, write the function, its row and its test. The package
// opens no client and reads no flags: it gets functions that look at one thing each, which are
// those of the running evictd.
package doctor

import (
	"slices"
	"strings"

	"github.com/evictd/evictd/internal/wording"
)

// State is the result of one check.
type State string

// The states.
const (
	// OK: evictd has what it needs.
	OK State = "ok"
	// Degraded: evictd works, with less than it could have.
	Degraded State = "degraded"
	// Missing: what evictd needs is not there, or refuses evictd.
	Missing State = "missing"
	// Unknown: it could not be looked at. It may be there or not.
	Unknown State = "unknown"
)

// Finding is the result of one check, one line.
type Finding struct {
	// Name is the check, and after a slash what it is about where there are several. Names are
	// stable; a name occurs once.
	Name string `json:"name"`
	// State is the result.
	State State `json:"state"`
	// Found is what was found, or why that is not known.
	Found string `json:"found"`
	// Follows is what it means for evictions; "" where the state is OK.
	Follows string `json:"follows"`
	// Do is how to fix it; "" where the state is OK.
	Do string `json:"do"`
}

// Sound reports whether evictd can do its work: nothing is missing and nothing is unknown.
func Sound(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.State != OK && f.State != Degraded })
}

// fine is a finding in order.
func fine(name, found string) Finding { return Finding{Name: name, State: OK, Found: found} }

// oneLine keeps an error, which may be several or have a server's text in it, to one line.
func oneLine(err error) string {
	return wording.OneLine(strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; "))
}
