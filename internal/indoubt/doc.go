// Package indoubt keeps the requests whose outcome is not known, until their pods were read or the
// watch of the pods has told. See docs/adr/0011-a-request-in-doubt.md, and record 24 for why they are
// not in inflight.
package indoubt
