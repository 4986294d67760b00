package main

import (
	"fmt"
	"sync"

	"github.com/evictd/evictd/internal/wording"
)

// What evictd does while the file that it was started with is invalid.
const (
	insteadLast = "the last valid one is in force, in dry run"
	insteadIdle = "no pod is evicted until the file is valid"
)

// refusal is the current fault of the configuration file. The zero value is none. It is safe
// for concurrent use: the probes read it.
type refusal struct {
	mu    sync.Mutex
	fault string
	// instead says what evictd does where no file has been valid since the start; "" once
	// one was valid.
	instead string
}

// begin records that the file was rejected at startup, and what evictd does instead.
func (r *refusal) begin(err error, instead string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fault, r.instead = wording.OneLine(err.Error()), instead
}

// set records a file that was rejected, or, with nil, one that is in effect.
func (r *refusal) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.fault, r.instead = "", ""
		return
	}
	r.fault = wording.OneLine(err.Error())
}

// atStart returns what evictd does instead of what the file says, where none has been valid
// since the start; otherwise "".
func (r *refusal) atStart() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.instead
}

// ready returns why evictd is not ready: it does not follow any file. A rejected edit does
// not count, because the previous configuration is still in effect.
func (r *refusal) ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.instead == "" {
		return nil
	}
	return fmt.Errorf("the configuration was refused at the start, and %s: %s", r.instead, r.fault)
}

// sentence says that an edit was rejected; "" when none was.
func (r *refusal) sentence() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fault == "" || r.instead != "" {
		return ""
	}
	return "the last edit of the configuration was refused, and the one before stays in force: " + r.fault
}
