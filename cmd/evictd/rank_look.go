package main

import (
	"context"
	"io"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// nodeSource is where a ranking's facts come from: the node, or a snapshot of it.
type nodeSource interface {
	// look returns what there is to see.
	look(ctx context.Context) (*snapshot.NodeSnapshot, error)
	// inquiry returns what asks about budgets; nil when nobody is to be asked.
	inquiry() *inquiry
	// detail returns what the cgroup of a pod tells, by the UID in its name; nil where the node
	// cannot be asked.
	detail(cgroupUID string) (*usage.Detail, error)
	close() error
}

// open returns the source that the flags name.
func (f *rankFlags) open(ctx context.Context, signal pressure.Signal, stdin io.Reader) (nodeSource, error) {
	if f.snapshot != "" {
		return openRecorded(f, stdin)
	}
	return openLive(ctx, f, signal)
}

// sight is a node as it was seen, and what follows from it.
type sight struct {
	node    *snapshot.NodeSnapshot
	signal  pressure.Signal
	ranking rank.Ranking
	detail  podDetail
	// notes are what somebody should know beside the ranking, one sentence each.
	notes []string
}

// ranker looks at a node and ranks it.
type ranker struct {
	signal  pressure.Signal
	source  nodeSource
	inquiry *inquiry // nil: nobody is asked
}

// look takes the same way as the agent, up to the ranking.
func (r *ranker) look(ctx context.Context) (*sight, error) {
	node, err := r.source.look(ctx)
	if err != nil {
		return nil, err
	}
	ranking, unread, err := node.Rank(ctx, r.signal)
	if err != nil {
		return nil, err
	}
	seen := &sight{node: node, signal: r.signal, ranking: ranking}
	if unread != nil {
		seen.notes = append(seen.notes, unread.Error()) // the pods in question are listed as protected
	}
	if r.inquiry != nil {
		var note string
		if node.Budgets, note = r.inquiry.ask(ctx, ranking.Candidates); note != "" {
			seen.notes = append(seen.notes, note)
		}
	}
	return seen, nil
}

// entry returns the place of a pod; nil when it is not on the node.
func (s *sight) entry(key string) *rank.Entry {
	for _, entries := range [][]rank.Entry{s.ranking.Candidates, s.ranking.Protected} {
		for i := range entries {
			if entries[i].Pod.Key() == key {
				return &entries[i]
			}
		}
	}
	return nil
}

// budget returns what the API server answered about a pod; nil when it was not asked.
func (s *sight) budget(uid string) *snapshot.Budget {
	for i := range s.node.Budgets {
		if s.node.Budgets[i].UID == uid {
			return &s.node.Budgets[i]
		}
	}
	return nil
}
