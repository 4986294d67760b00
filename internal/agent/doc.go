// Package agent is the loop: one tick, readable on one screen, and the only place where all else
// meets. docs/architecture.md reads it aloud.
//
//	Sample ─▶ Verdict ─▶ Situation ─▶ Plan or Hold ─▶ Report
//
// Every outcome is a [decide.Decision], also that no pod was evicted, and a [Recorder] makes log
// lines, Events and metrics of it.
package agent
