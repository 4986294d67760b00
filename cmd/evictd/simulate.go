package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/internal/scenario"
	"github.com/evictd/evictd/internal/sim"
)

// simulateFlags are the flags of `evictd simulate`.
type simulateFlags struct {
	config, output, compare string
	seed                    uint64
}

func newSimulateCommand() *cobra.Command {
	var flags simulateFlags
	const short = "Play a scenario on an invented node, with the evictd that runs in the DaemonSet, and print what happens"
	cmd := newCommand("simulate FILE", short, func(cmd *cobra.Command, args []string) error {
		return flags.run(cmd, args[0])
	})
	cmd.Args = cobra.ExactArgs(1)
	cmd.Flags().StringVar(&flags.config, "config", "", "a configuration, whose dryRun does not matter; the defaults when left out")
	cmd.Flags().Lookup("config").Changed = true // not by $EVICTD_CONFIG, which is the agent's
	cmd.Flags().Uint64Var(&flags.seed, "seed", 1, "of what differs between pods")
	addChoice(cmd, &flags.output, "output", "o", "story", formatJSON)
	addChoice(cmd, &flags.compare, "compare", "", "", "kubelet")
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command, path string) error {
	s, err := scenario.Load(path)
	if err != nil {
		return reportFaults(cmd, path, err)
	}
	c := config.Default()
	if f.config != "" {
		if c, err = loadConfig(f.config); err != nil {
			return err
		}
	}
	w, asJSON := cmd.OutOrStdout(), f.output == formatJSON
	story, arms := &scenario.Story{W: w, JSON: asJSON}, scenario.Arms{}
	play := func(arm sim.Arm, tell func(sim.Event)) {
		if err == nil {
			arms[arm], err = s.Play(cmd.Context().Err, arm, simulated(c), f.seed, tell)
		}
	}
	return sim.InTime(func() error {
		if !asJSON && s.About != "" {
			_, _ = fmt.Fprintln(w, s.About) // the story says what is wrong with w
		}
		play(sim.Both, story.Tell)
		play(sim.Ideal, func(sim.Event) {})
		if f.compare != "" {
			play(sim.KubeletAlone, func(sim.Event) {})
		}
		if err == nil {
			err = story.Err
		}
		if err == nil {
			err = arms.Write(w, asJSON)
		}
		return err
	})
}

// simulated returns the policy of a configuration on a node whose kubelet has its defaults. evictd acts there, whatever
// dryRun says: the policy does not have it.
func simulated(c *config.EvictdConfiguration) agent.Policy {
	kubelet := kubeletconfig.Default()
	policy := policyFrom(c, kubelet)
	policy.KubeletHard = hardOf(kubelet)
	return policy
}
