// Package acting answers: does this agent act, and why not?
//
// An agent that does not act decides and records as one that does, and sends every eviction as a
// server-side dry run. Its configuration may say so, and the ConfigMap [StopName] stops all agents at
// once. What is not known counts against acting. See
// docs/adr/0035-one-answer-whether-an-agent-acts.md.
package acting

// Reason is why an agent does not act.
type Reason string

// The reasons, in their order: the first that holds is reported.
const (
	// Acts: there is none.
	Acts Reason = ""
	// Stopped: the ConfigMap exists that stops all agents.
	Stopped Reason = "Stopped"
	// Configured: dryRun or --dry-run is set.
	Configured Reason = "Configured"
	// StopUnknown: it is not known whether the ConfigMap exists, and the agent would act if it did not.
	StopUnknown Reason = "StopUnknown"
)

// Reasons returns every reason not to act, so that metrics can be created at start.
func Reasons() []Reason { return []Reason{Stopped, Configured, StopUnknown} }

// State is whether an agent acts. The zero State acts.
type State struct {
	// Reason is why it does not; [Acts] when it does. Unanswered says that it is [StopUnknown], and was never known.
	Reason     Reason `json:"reason,omitempty"`
	Unanswered bool   `json:"-"`
	// Why is the reason in one clause; "" when it acts.
	Why string `json:"why,omitempty"`
	// Do is how to change that, in one clause; "" when it acts, when the state is intended, and
	// while an answer is still awaited.
	Do string `json:"-"`
}

// Acts reports whether the agent acts.
func (s State) Acts() bool { return s.Reason == Acts }

// String returns the state as a sentence without its full stop.
func (s State) String() string {
	if s.Acts() {
		return "evictd acts"
	}
	return "evictd does not act: " + s.Why
}

// Of returns whether an agent acts now, by dryRun of its configuration and --dry-run.
func (a *Acting) Of(dryRun, flag bool) State {
	stop := a.state()
	switch {
	case stop.Reason == Stopped:
		return stop
	case flag:
		return State{Reason: Configured, Why: "--dry-run is set"}
	case dryRun:
		return State{Reason: Configured, Why: "dryRun is true in its configuration"}
	default:
		return stop
	}
}
