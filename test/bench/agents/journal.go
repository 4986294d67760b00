package main

import (
	"context"
	"time"

	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// journal are the agents' requests, by the API server's audit log.
type journal struct {
	log      audit.Log
	received map[string]time.Time    // by audit ID
	watches  map[string]*audit.Event // by node: the last that was received for its pods
}

// read reads what the log has had since the last time.
func (j *journal) read() error {
	events, err := j.log.Next()
	for i := range events {
		e := &events[i]
		node := e.User.Extra["authentication.kubernetes.io/node-name"] // by the agent's token
		if e.User.Username != evictdtest.AccountUser || len(node) == 0 {
			continue
		}
		j.received[e.AuditID] = e.Received.Time
		if last := j.watches[node[0]]; e.Verb == "watch" && e.ObjectRef.Resource == "pods" && (last == nil || !e.Received.Before(&last.Received)) {
			j.watches[node[0]] = e
		}
	}
	return err
}

// since returns how many requests were received since a moment, and how many of them in one second at most.
func (j *journal) since(moment time.Time) (all, most int) {
	seconds := map[int64]int{}
	for _, at := range j.received {
		if at.After(moment) {
			all++
			seconds[at.Unix()]++
			most = max(most, seconds[at.Unix()])
		}
	}
	return all, most
}

// synced waits until each of these agents watches its node's pods, by a request after a moment. A watch that
// cannot go on where the one before ended is answered, and ends at once.
func (b *bench) synced(ctx context.Context, since time.Time, agents []*agent) ([]time.Duration, error) {
	return await(ctx, "watch their pods", since, agents, func(a *agent) time.Time {
		_ = b.journal.read() // a line that is none: the API server was killed while it wrote it
		if last := b.journal.watches[a.node]; last != nil && last.Stage == "ResponseStarted" && last.Received.After(since) {
			return last.At.Time
		}
		return time.Time{}
	})
}
