package main

import (
	"github.com/spf13/cobra"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/sim"
)

func newReplayCommand() *cobra.Command {
	var flags recordFlags
	var path string
	var suggest bool
	const short = "Decide again by the record: what evictd would have done with another configuration, beside what it did"
	cmd := newCommand("replay", short, func(cmd *cobra.Command, _ []string) error {
		policy := simulated
		if path != "" {
			c, err := loadConfig(path)
			if err != nil {
				return err
			}
			policy = func(*config.EvictdConfiguration) agent.Policy { return simulated(c) }
		}
		r, since, err := flags.open(cmd)
		if err != nil {
			return err
		}
		n, err := sim.ReadRecording(r, since)
		if err != nil {
			return err
		}
		tell := n.Compare
		if suggest {
			tell = n.Suggest
		}
		return sim.InTime(func() error { return tell(cmd.OutOrStdout(), policy) })
	})
	flags.add(cmd)
	cmd.Flags().StringVar(&path, "config", "", "a configuration to decide by; the record's own when left out")
	cmd.Flags().Lookup("config").Changed = true // not by $EVICTD_CONFIG, which is the agent's
	cmd.Flags().BoolVar(&suggest, "suggest", false, "print what other hard lines of memory.available would have come to")
	return cmd
}
