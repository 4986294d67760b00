// Command incidents puts a real node through the same incidents twice: with the kubelet alone,
// and with evictd beside it. It records who lost what. `make bench-incidents` runs it.
//
// The machine stands in for a smaller node: what is available above the stand-in's end is the
// node's, the rest stays free. The thresholds are the defaults of both for a node of that size.
//
// With --soak it plays the quick scenarios round after round with one evictd, and faults meanwhile: `make soak`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/rig"
)

// settings are the flags.
type settings struct {
	runs    int
	only    []int // scenarios
	arms    []string
	results string
	commit  string
	source  string // of the results, see [Result.Source]
	page    string
	summary string
	table   bool
	soak    time.Duration // how long rounds of a soak begin; 0 is a series of runs
	seed    uint64        // of the rounds of a soak
}

func main() { os.Exit(measure.Run("incidents", run)) }

func parse(arguments []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("incidents", flag.ContinueOnError)
	flags.IntVar(&s.runs, "runs", 3, "runs of each scenario and arm")
	flags.Func("only", "scenarios to run, such as 3,4; empty is all, or those of a soak", s.choose)
	arms := flags.String("arms", strings.Join(allArms(), ","), "arms to run")
	flags.StringVar(&s.results, "results", "incidents", "folder of the results, one JSON file each")
	flags.StringVar(&s.commit, "commit", "unknown", "commit of the code, for the results")
	flags.StringVar(&s.source, "source", "", "commit of all that is measured, for the results; empty is unknown")
	flags.StringVar(&s.page, "page", "", "file whose part between the markers becomes the table; empty prints it")
	flags.StringVar(&s.summary, "summary", "", "the same for the summary of the table")
	flags.BoolVar(&s.table, "table", false, "only make the table from the results")
	flags.DurationVar(&s.soak, "soak", 0, "a soak: begin rounds for that long, evictd lives on; 0 is a series of runs")
	flags.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "order of the rounds of a soak; the default is the clock")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if s.soak != 0 && s.soak < time.Minute {
		return s, fmt.Errorf("--soak %v is shorter than one round: use 1m or more", s.soak)
	}
	if len(s.only) == 0 && s.soak > 0 {
		s.only = quick()
	}
	if len(s.only) == 0 {
		s.only = measure.Each(catalogue(), func(s *Scenario) int { return s.Number })
	}
	s.arms = strings.Split(*arms, ",")
	for _, arm := range s.arms {
		if !slices.Contains(allArms(), arm) {
			return s, fmt.Errorf("parsing --arms %q: there is no arm %q, want some of %s", *arms, arm, strings.Join(allArms(), ","))
		}
	}
	if s.runs < 1 {
		return s, errors.New("at least one run")
	}
	return s, nil
}

// choose takes the scenarios to run.
func (s *settings) choose(only string) error {
	for text := range strings.SplitSeq(only, ",") {
		number, err := strconv.Atoi(text)
		if text != "" && (err != nil || find(number) == nil) {
			return fmt.Errorf("there is no scenario %q", text)
		}
		if text != "" {
			s.only = append(s.only, number)
		}
	}
	return nil
}

func run(ctx context.Context, arguments []string) error {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	if chosen.table {
		return publish(&chosen)
	}
	b := &bench{Rig: rig.Rig{Started: time.Now()}, settings: chosen}
	runs, publishes := b.series, publish
	if chosen.soak > 0 {
		runs, publishes = b.soak, func(*settings) error { return nil }
	}
	return errors.Join(b.Run(ctx, b.up, runs), publishes(&chosen))
}

// series does all runs by turns: both arms of a scenario follow each other, and the one that is
// first changes with every run.
func (b *bench) series(ctx context.Context) error {
	for number := 1; number <= b.settings.runs; number++ {
		for _, s := range catalogue() {
			if !slices.Contains(b.settings.only, s.Number) {
				continue
			}
			arms := slices.Clone(b.settings.arms)
			if number%2 == 0 {
				slices.Reverse(arms)
			}
			for _, arm := range arms {
				if !slices.Contains(s.arms(), arm) {
					continue
				}
				if err := b.one(ctx, &s, arm, number); err != nil {
					return fmt.Errorf("run %d of scenario %d (%s), %s: %w", number, s.Number, s.Name, arm, err)
				}
			}
		}
	}
	return nil
}

// one does one run, unless it is done, and keeps its result.
func (b *bench) one(ctx context.Context, s *Scenario, arm string, number int) error {
	done, err := b.settings.done(&Result{Scenario: s.Number, Arm: arm, Run: number})
	if err != nil || done {
		return err
	}
	load, err := idle(ctx)
	if err != nil {
		return err
	}
	r, err := b.run(ctx, s, arm, number, node.Policy{Limits: "{}", Extra: s.Config})
	if err != nil {
		return err
	}
	r.Load = load
	all, granted := r.by(causes()...), r.by(byEvictd, byKubelet)
	b.Say("%2d %-28s %-11s run %d: evictd ended %d, all %d (%d beyond, %d innocent), OOM kills %d, budgets %d, grace %d of %d, below %.1f / %.1f s, failed %d of %d",
		s.Number, s.Name, arm, number, r.by(byEvictd).ended, all.ended, all.beyond, all.innocent, r.OOMKills, r.Violated, granted.graceful, granted.ended,
		r.line(hardLine).Below, r.line(kubeletLine).Below, r.Failed, r.Asked)
	return r.write(b.settings.results)
}

// idle waits until the load average of the last minute is below 1.5, so that a run is not beside other work, and returns
// all three. The run before leaves one that falls within minutes.
func idle(ctx context.Context) (load string, err error) {
	const most, patience = 1.5, 10 * time.Minute
	err = node.Until(ctx, patience, func(context.Context) bool {
		var last float64
		load = measure.Load()
		_, unread := fmt.Sscan(load, &last) // without it the machine is never idle
		return unread == nil && last < most
	})
	if err != nil {
		return load, fmt.Errorf("waiting until other work on the machine ends: its load averages are %s: %w", load, err)
	}
	return load, nil
}
