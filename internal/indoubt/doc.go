// Package indoubt keeps the requests whose outcome is unknown, until their pods were read or the
// watch has reported them. See docs/adr/0011-a-request-in-doubt.md, and record 24 for why they are
// not in inflight.
package indoubt
