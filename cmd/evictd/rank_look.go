package main

import (
	"context"
	"io"

	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// nodeSource is the source of a ranking's facts: the node, or a snapshot of it.
type nodeSource interface {
	// look returns the current facts.
	look(ctx context.Context) (*snapshot.NodeSnapshot, error)
	// inquiry returns the inquiry for budgets; nil when there are no dry runs.
	inquiry() *inquiry
	// detail returns the figures of a pod's cgroup, by the UID in its name; nil where there
	// is no live node.
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

// sight is a node's facts with the results computed from them.
type sight struct {
	node    *snapshot.NodeSnapshot
	signal  pressure.Signal
	ranking rank.Ranking
	detail  podDetail
	// notes are remarks to print beside the ranking, one sentence each.
	notes []string
}

// ranker reads a node and ranks its pods.
type ranker struct {
	signal  pressure.Signal
	source  nodeSource
	inquiry *inquiry // nil: no dry runs
}

// look computes the ranking in the same way as the agent.
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
		seen.notes = append(seen.notes, unread.Error()) // these pods are listed as protected
	}
	if r.inquiry != nil {
		var note string
		if node.Budgets, note = r.inquiry.ask(ctx, ranking.Candidates); note != "" {
			seen.notes = append(seen.notes, note)
		}
	}
	return seen, nil
}

// entry returns the ranking entry of a pod; nil when it is not on the node.
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

// budget returns the result of the pod's dry run; nil when there was none.
func (s *sight) budget(uid string) *snapshot.Budget {
	for i := range s.node.Budgets {
		if s.node.Budgets[i].UID == uid {
			return &s.node.Budgets[i]
		}
	}
	return nil
}
