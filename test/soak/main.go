// Command soak runs evictd on a real node through random incidents for a while: pods that take
// memory or a disk, budgets, victims that end slowly, and meanwhile an API server that pauses or
// restarts, a killed evictd and edits of its configuration. At the end no pod may have been evicted
// that its scenario does not name, every incident must have ended, and evictd may not have grown:
// the slopes of its memory, descriptors and goroutines are printed. `make soak` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// needed is the memory that must be available before the start: the node and the pods use about
// 3 GiB.
const needed = 6 << 30

// transition is how long a signal must be above its target before an incident ends.
const transition = 10 * time.Second

// settings are the flags.
type settings struct {
	duration time.Duration
	seed     uint64
}

func main() { os.Exit(measure.Run("soak", run)) }

func parse(arguments []string) (settings, error) {
	s := settings{seed: uint64(time.Now().UnixNano())}
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.DurationVar(&s.duration, "duration", 30*time.Minute, "how long new rounds begin")
	flags.Uint64Var(&s.seed, "seed", s.seed, "the order of the rounds; the default is the clock")
	if err := flags.Parse(arguments); err != nil {
		return s, fmt.Errorf("parsing the flags: %w", err)
	}
	if s.duration < time.Minute {
		return s, fmt.Errorf("--duration %v is shorter than one round: use 1m or more", s.duration)
	}
	return s, nil
}

func run(ctx context.Context, arguments []string) (err error) {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	files, err := node.FilesFromEnvironment()
	if err != nil {
		return err
	}
	available, err := node.MemoryAvailable()
	if err != nil {
		return err
	}
	if available < needed {
		return fmt.Errorf("%d MiB of memory are available, %d are needed", available>>20, needed>>20)
	}
	s := &soak{settings: chosen, started: time.Now(), random: rand.New(rand.NewPCG(chosen.seed, 0))} //nolint:gosec // an order
	if s.node, err = node.Start(ctx, files, os.Stdout, func(o *cluster.Options) {
		o.Disk = &cluster.Disk{Size: 512 << 20, Inodes: 16 << 10}
		// The kubelet's figures of volumes follow a pod in seconds, so that no round waits for them.
		o.Kubelet["volumeStatsAggPeriod"] = "10s"
		o.Kubelet["containerLogMaxSize"] = "1Gi"
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.node.Stop(context.WithoutCancel(ctx))) }()
	if err := s.node.Deploy(ctx); err != nil {
		return err
	}
	s.audit = audit.Log{Path: s.node.Cluster.AuditLog()}
	return s.run(ctx)
}

// soak is one run of the command.
type soak struct {
	settings settings
	started  time.Time
	random   *rand.Rand
	node     *node.Node
	audit    audit.Log
	vitals   vitals
	log      *logbook
	rounds   []roundResult
}

// roundResult is what one round came to.
type roundResult struct {
	scenario, fault string
	evicted         int
	wrong           []string // pods that were evicted, and should not have been
}

func (s *soak) say(format string, a ...any) {
	fmt.Printf("[%5.0fs] %s\n", time.Since(s.started).Seconds(), fmt.Sprintf(format, a...))
}

// run runs rounds until the time is over, and judges them.
func (s *soak) run(ctx context.Context) error {
	s.say("seed %d; rounds begin for %v", s.settings.seed, s.settings.duration)
	s.log = followLog(ctx, s.node)
	for len(s.rounds) == 0 || time.Since(s.started) < s.settings.duration {
		if err := s.round(ctx); err != nil {
			return errors.Join(err, fmt.Errorf("evictd's last lines:\n%s", s.log.tail()))
		}
	}
	open := s.log.openIncidents()
	return errors.Join(s.print(open), s.verdict(open))
}

// verdict returns what is wrong with the run; nil when nothing is.
func (s *soak) verdict(open []string) error {
	var faults []error
	for i, r := range s.rounds {
		for _, pod := range r.wrong {
			faults = append(faults, fmt.Errorf("round %d (%s, %s): %s was evicted, and the scenario does not name it", i+1, r.scenario, r.fault, pod))
		}
	}
	for _, id := range open {
		faults = append(faults, fmt.Errorf("incident %s has begun and not ended", id))
	}
	return errors.Join(append(faults, s.vitals.grown()...)...)
}

// print prints what was done, and how evictd's own use developed.
func (s *soak) print(open []string) error {
	counts := map[[2]string]int{}
	evicted := map[[2]string]int{}
	var order [][2]string
	for _, r := range s.rounds {
		key := [2]string{r.scenario, r.fault}
		if counts[key] == 0 {
			order = append(order, key)
		}
		counts[key]++
		evicted[key] += r.evicted
	}
	var rows [][]string
	for _, key := range order {
		rows = append(rows, []string{key[0], key[1], fmt.Sprint(counts[key]), fmt.Sprint(evicted[key])})
	}
	fmt.Printf("\n%s; seed %d; %d rounds in %v; %d incidents open at the end\n\n", measure.Machine(), s.settings.seed,
		len(s.rounds), time.Since(s.started).Round(time.Second), len(open))
	if err := measure.Table(os.Stdout, []string{"scenario", "fault meanwhile", "rounds", "evictions"}, rows); err != nil {
		return fmt.Errorf("printing the rounds: %w", err)
	}
	fmt.Println()
	return s.vitals.print(os.Stdout)
}
