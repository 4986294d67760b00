package main

import "fmt"

// What evictd does while the file that it was started with is invalid.
const (
	insteadLast = "the last valid one is in force, in dry run"
	insteadIdle = "no pod is evicted until the file is valid"
)

// refusal is the current fault of the configuration file; nil is none.
type refusal struct {
	fault string // on one line
	// instead says what evictd does where no file has been valid since the start; "" once one was valid.
	instead string
}

// atStart returns what evictd does instead of what the file says, where none has been valid
// since the start; otherwise "".
func (r *refusal) atStart() string {
	if r == nil {
		return ""
	}
	return r.instead
}

// ready returns why evictd is not ready: it does not follow any file. A rejected edit does
// not count, because the previous configuration is still in effect.
func (r *refusal) ready() error {
	if r.atStart() == "" {
		return nil
	}
	return fmt.Errorf("the configuration was refused at the start, and %s: %s", r.instead, r.fault)
}

// sentence says that an edit was rejected; "" when none was.
func (r *refusal) sentence() string {
	if r == nil || r.instead != "" {
		return ""
	}
	return "the last edit of the configuration was refused, and the one before stays in force: " + r.fault
}
