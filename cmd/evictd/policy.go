package main

import (
	"fmt"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// policyOf turns a configuration into the agent's policy, without what says whether evictd acts.
func policyOf(c *config.EvictdConfiguration) (agent.Policy, error) {
	thresholds, err := c.Thresholds()
	if err != nil {
		return agent.Policy{}, fmt.Errorf("reading the thresholds: %w", err)
	}
	return agent.Policy{
		Policy: decide.Policy{
			Thresholds:      thresholds,
			MemoryAvailable: c.MemoryDefinition(),
			Rules:           c.Rules(),
			WithinRequests:  decide.WithinRequests(c.Protect.WithinRequests),
			SoftGrace:       int64(c.EvictionMaxPodGracePeriod),
			HardGrace:       int64(c.EvictionHardPodGracePeriod),
			OverdueGrace:    int64(c.EvictionOverdueGracePeriod),
			BestEffort:      c.DisruptionBudgets == config.BudgetsBestEffort,
			TaintNode:       c.TaintNode,
		},
		Transition: c.EvictionPressureTransitionPeriod.Duration,
		Pacing: pressure.Pacing{
			Min: c.Sampling.MinInterval.Duration,
			Max: c.Sampling.MaxInterval.Duration,
		},
		Limits: cooldown.Limits{
			PerMinute:       int(c.Limits.EvictionsPerMinute),
			PerOwnerPerHour: int(c.Limits.PerOwnerPerHour),
			SoftJitter:      c.Limits.SoftJitter.Duration,
		},
	}, nil
}

// signalsOf returns the signals of the thresholds.
func signalsOf(thresholds []pressure.Threshold) []pressure.Signal {
	var signals []pressure.Signal
	asked := [pressure.SignalCount]bool{}
	for _, t := range thresholds {
		if !asked[t.Signal] {
			asked[t.Signal] = true
			signals = append(signals, t.Signal)
		}
	}
	return signals
}
