package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// agent is a running evictd.
type agent struct {
	*evictdtest.Process

	node string
}

func nodeName(i int) string { return fmt.Sprintf("calm-%d", i) }

// path is a file of an agent.
func (b *bench) path(i int, name string) string { return filepath.Join(b.dir, nodeName(i), name) }

// start starts agents until there are that many, all at once, waits until each has its node's pods, and
// prints what that cost.
func (b *bench) start(ctx context.Context, agents int) error {
	already, begin := len(b.running), time.Now()
	if already == agents {
		return nil
	}
	before, _, err := b.usage(apiServer)
	if err != nil {
		return err
	}
	for i := already; i < agents; i++ {
		if err = b.startOne(i); err != nil {
			return err
		}
	}
	took, err := b.synced(ctx, begin, b.running[already:])
	after, _, unread := b.usage(apiServer)
	if err = errors.Join(err, unread); err != nil {
		return err
	}
	fmt.Printf("\n%d agents start at once: in sync after %s s (first, median, p99, last); meanwhile the API server uses %.1f s of CPU.\n",
		agents-already, strings.Join(spread(took, time.Second), ", "), (after - before).Seconds())
	return nil
}

func (b *bench) startOne(i int) error {
	config := b.cluster.RESTConfig()
	options := evictdtest.Options{
		Host: b.host, Node: nodeName(i), Server: strings.TrimPrefix(config.Host, "https://"), CA: config.CAData, TokenFile: b.path(i, "token"),
		// Many nodes share this machine's cores: sampled more often they would leave less for the API server. The
		// requests do not depend on it.
		Settings: evictdtest.Thresholds + "dryRun: true\nsampling: {minInterval: 10s, maxInterval: 10s}\n",
	}
	const address = "127.0.0.1:0"
	command, err := options.Command(os.Getenv("EVICTD_BIN"), b.path(i, ""), address)
	if err != nil {
		return err
	}
	process, err := evictdtest.Run(command, address)
	if err != nil {
		return err
	}
	b.running = append(b.running, &agent{process, nodeName(i)})
	return nil
}

// end ends all agents, all at once.
func (b *bench) end() error {
	var ended errgroup.Group
	for _, a := range b.running {
		ended.Go(a.End)
	}
	return ended.Wait()
}

// usedCPU is the CPU time of all agents since their starts.
func (b *bench) usedCPU() (sum time.Duration, faults error) {
	for _, a := range b.running {
		used, err := measure.CPU(a.PID())
		sum, faults = sum+used, errors.Join(faults, err)
	}
	return sum, faults
}

// await waits until each of these agents has reached something after a moment, and returns how long after. It
// looks once a second, since there is a log that has the time.
func await(ctx context.Context, what string, since time.Time, agents []*agent, reached func(*agent) time.Time) ([]time.Duration, error) {
	var took []time.Duration
	var missing *agent
	err := wait.PollUntilContextTimeout(ctx, time.Second, eventually.Limit(), true, func(context.Context) (bool, error) {
		took = nil
		for _, a := range agents {
			if at := reached(a); at.After(since) {
				took = append(took, at.Sub(since))
			} else {
				missing = a
			}
		}
		return len(took) == len(agents), nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting until all agents %s: %d of %d do, and not that of %s: %w: %s",
			what, len(took), len(agents), missing.node, err, missing.Log)
	}
	return took, nil
}

// say does something and waits until each agent says in its log that it does not act for a reason.
func (b *bench) say(ctx context.Context, reason acting.Reason, do func() error) ([]time.Duration, error) {
	since := time.Now()
	if err := do(); err != nil {
		return nil, fmt.Errorf("stopping the agents, or ending that: %w", err)
	}
	line := regexp.MustCompile(`"ts":"([^"]+)","msg":"evictd does not act","reason":"` + string(reason) + `"`)
	return await(ctx, "say "+string(reason), since, b.running, func(a *agent) (at time.Time) {
		for _, said := range line.FindAllStringSubmatch(a.Log.String(), -1) {
			at, _ = time.Parse(time.RFC3339Nano, said[1]) // what is no time is not after the moment
		}
		return at
	})
}
