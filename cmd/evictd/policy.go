package main

import (
	"slices"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// policyOf turns a configuration into the agent's policy, without what says whether evictd acts.
func policyOf(c *config.EvictdConfiguration) agent.Policy {
	thresholds, _ := c.Thresholds() // it was validated
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
	}
}

// signalsOf returns the signals of the thresholds, in their order.
func signalsOf(thresholds []pressure.Threshold) []pressure.Signal {
	var signals []pressure.Signal
	for i := range thresholds {
		signals = append(signals, thresholds[i].Signal)
	}
	slices.Sort(signals)
	return slices.Compact(signals)
}
