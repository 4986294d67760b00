// Command reaction measures on a real node how long evictd, and the kubelet's own hard
// threshold, take from the moment at which memory falls below their threshold until their
// eviction reaches the API server. `make bench-reaction` runs it.
//
// Both agents are active all the time, each with its own threshold, the kubelet's far below
// evictd's. This program allocates a ballast to put the node at the same distance above the
// threshold of the measured agent; then a pod faults memory at a rate. While the kubelet is
// measured, evictd's configuration protects every pod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/rig"
)

// namespace is where the pods run.
const namespace = "bench"

// agent is the measured agent.
type agent string

const (
	byEvictd  agent = "evictd"
	byKubelet agent = "kubelet"
)

func agents() []agent { return []agent{byEvictd, byKubelet} }

// taking returns the agents of the runs of one round. A kubelet run takes up to ten seconds,
// an evictd run does not, and a 99th percentile needs a hundred runs.
func (s *settings) taking() []agent {
	round := slices.Repeat([]agent{byEvictd}, s.evictds)
	if s.busy() {
		return round
	}
	return append(round, byKubelet)
}

// settings are the flags.
type settings struct {
	runs    int
	evictds int // runs of evictd for each of the kubelet's
	pods    int
	settle  time.Duration // before each run
	rates   []int64       // bytes a second
	// cpus are the CPU requests of evictd to compare, without a limit and with all CPUs in use; "" leaves evictd its
	// shipped resources.
	cpus []string
}

// busy reports whether all CPUs are in use.
func (s *settings) busy() bool { return s.cpus[0] != "" }

// idlePods returns how many pods do nothing: the others are evictd's, the allocator and, where CPU
// requests are compared, those that keep the CPUs in use.
func (s *settings) idlePods() int {
	others := ownPods
	if s.busy() {
		others += runtime.NumCPU()
	}
	return max(s.pods-others, 0)
}

func main() { os.Exit(measure.Run("reaction", run)) }

func parse(arguments []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("reaction", flag.ContinueOnError)
	flags.IntVar(&s.runs, "runs", 20, "runs for each rate and agent")
	flags.IntVar(&s.evictds, "evictds", 1, "runs of evictd for each run of the kubelet's")
	flags.IntVar(&s.pods, "pods", 110, "pods on the node in all")
	flags.DurationVar(&s.settle, "settle", 0, "rest before each run, in which the kernel empties its per-CPU lists of free pages")
	rates := flags.String("rates", "100,300,1000", "rates at which the pod takes memory, in MB/s")
	cpus := flags.String("cpus", "", "CPU requests of evictd to compare, such as 10m,50m, without a limit and while all CPUs are in use")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	s.cpus = strings.Split(*cpus, ",") // the API server refuses what is no amount of CPU
	for text := range strings.SplitSeq(*rates, ",") {
		rate, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || rate < 1 {
			return s, fmt.Errorf("parsing --rates %q: want numbers of MB/s with commas between", *rates)
		}
		s.rates = append(s.rates, rate*megabyte)
	}
	if s.runs < 1 || s.evictds < 1 || s.settle < 0 || s.pods < ownPods || s.pods > maxPods {
		return s, fmt.Errorf("at least one run, no negative rest, and %d to %d pods", ownPods, maxPods)
	}
	return s, nil
}

func run(ctx context.Context, arguments []string) error {
	chosen, err := parse(arguments)
	if err != nil {
		return err
	}
	b := &bench{Rig: rig.Rig{Started: time.Now()}, settings: chosen}
	return b.Run(ctx, b.up, func(ctx context.Context) error {
		return errors.Join(b.measure(ctx), b.print(os.Stdout)) // also the result of an interrupted run
	})
}
