// Package agent is one tick, readable on one screen, and the only place where the
// four questions meet: is the node short of something (pkg/pressure), what does
// each pod use (pkg/usage), who goes first (pkg/rank), how does it go (pkg/evict).
//
//	sample ─▶ judge ─▶ measure the pods ─▶ rank ─▶ look again ─▶ evict ─▶ record
//
// Nothing flows back. Every outcome is a [Decision], also that nobody was evicted,
// and a [Recorder] makes log lines, events and metrics of it.
package agent
