package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

const (
	// kubeletPeriod is the kubelet's interval: the crossings are spread over it evenly.
	kubeletPeriod = 10 * time.Second
	// patience is how long an agent may take, with the time that the pod needs to cross
	// the threshold. If a run of the kubelet takes longer, another process has freed memory;
	// if one of evictd takes longer after a crossing, the benchmark ends.
	patience = 45 * time.Second
	// overshoot is how far below the threshold the allocator goes before it stops. The pressure
	// lasts until the kubelet looks, and an evictd run does not reach the kubelet's threshold.
	overshoot = 800 * megabyte
	// closest is the least distance above the threshold from which a run starts: other use
	// of the machine should not cross it.
	closest = 300 * megabyte
	// slowest is the share of its rate that the pod must reach: a run in which other
	// processes used the cores does not measure that rate.
	slowest = 0.75
	// looksBack is longer than evictd's forecast looks back: what the ballast takes counts as used up for so long, and evictd
	// does not end a pod that holds little of what was used up.
	looksBack = 12 * time.Second
	// tries is how often a disturbed run is repeated.
	tries = 20
)

// result is one run.
type result struct {
	agent    agent
	share    string // evictd's CPU request; "" is what is shipped
	rate     int64
	crossed  time.Time // when memory fell below the line
	reaction time.Duration
	cpu      time.Duration // that evictd used in it
	measured float64       // bytes a second
	gap      time.Duration
	sign     string
	kills    int64 // OOM kills on the whole machine
}

// errDisturbed says that a run has no result, because another process on the machine used or
// freed too much memory meanwhile.
var errDisturbed = errors.New("the run was disturbed")

// measure does all runs, alternating between the agents so that both have the same noise.
func (b *bench) measure(ctx context.Context) error {
	for _, share := range b.settings.cpus {
		if err := b.share(ctx, share); err != nil {
			return err
		}
		for _, rate := range b.settings.rates {
			if err := b.round(ctx, share, rate); err != nil {
				return err
			}
		}
	}
	return nil
}

// round does all runs at one rate.
func (b *bench) round(ctx context.Context, share string, rate int64) error {
	for i := range b.settings.runs {
		for _, a := range b.settings.taking() {
			r, err := b.persist(ctx, a, rate, i)
			if err != nil {
				return fmt.Errorf("run %d of %s at %d MB/s: %w", i+1, a, rate/megabyte, err)
			}
			r.share = share
			b.results = append(b.results, r)
			b.Say("%4d MB/s (measured %4.0f), run %2d, %-7s %9.1f ms after the crossing: %s", rate/megabyte,
				r.measured/megabyte, i+1, a, float64(r.reaction.Microseconds())/1000, r.sign)
		}
	}
	return nil
}

// persist repeats a run that was disturbed.
func (b *bench) persist(ctx context.Context, a agent, rate int64, run int) (result, error) {
	for try := 1; ; try++ {
		r, err := b.turn(ctx, a, rate, run)
		if !errors.Is(err, errDisturbed) || try == tries || ctx.Err() != nil {
			return r, err
		}
		b.repeated++
		b.Say("%v; it is done again", err)
	}
}

// turn is one run: it starts a pod, puts the node at its distance from the threshold, starts
// the pod's allocation, and waits for the request to the API server.
func (b *bench) turn(ctx context.Context, a agent, rate int64, run int) (r result, err error) {
	if err = measure.Sleep(ctx, b.settings.settle); err != nil {
		return r, err
	}
	distance := max(rate, closest)
	if a == byKubelet {
		distance = max(rate*kubeletWay/gigabyte, closest)
	}
	b.count++
	name := string(a) + "-" + strconv.Itoa(b.count)
	if err = b.create(ctx, b.allocator(name, rate, distance+overshoot)); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.remove(context.WithoutCancel(ctx), name)) }()
	if _, err = b.Node.Running(ctx, namespace, name); err != nil {
		return r, fmt.Errorf("%w: %w", errDisturbed, err)
	}
	defer func() { err = errors.Join(err, b.Ballast.Set(spare)) }()
	if err = b.place(ctx, a, distance); err != nil {
		return r, err
	}
	if a == byKubelet { // evenly, and not at the same moments in every series
		share := (float64(run) + rand.Float64()) / float64(b.settings.runs) //nolint:gosec // no secret
		if err = measure.Sleep(ctx, time.Duration(share*float64(kubeletPeriod))); err != nil {
			return r, err
		}
		if err = b.place(ctx, a, distance); err != nil {
			return r, err
		}
	}
	if a == byEvictd {
		err = measure.Sleep(ctx, looksBack)
		if err = errors.Join(err, b.place(ctx, a, distance), b.expose(ctx, name)); err != nil {
			return r, err
		}
	}
	kills, err := pressure.OOMKills("")
	if err != nil {
		return r, err
	}
	r, err = b.release(ctx, a, name, distance)
	after, unread := pressure.OOMKills("")
	r.agent, r.rate, r.kills = a, rate, after-kills
	return r, errors.Join(err, unread, tooSlow(&r))
}

// missed returns the error of a run without an eviction: either evictd did not act although
// the line was crossed, which is not a disturbance, or there was no crossing.
func missed(a agent, silent, uncrossed error) error {
	if a == byEvictd && uncrossed == nil {
		return fmt.Errorf("evictd did nothing about a crossing for %v", patience)
	}
	return errors.Join(silent, uncrossed)
}

// tooSlow reports that the pod did not reach its rate. A failed run has none.
func tooSlow(r *result) error {
	if r.measured == 0 || r.measured >= slowest*float64(r.rate) {
		return nil
	}
	return fmt.Errorf("%w: the pod took only %.0f MB/s", errDisturbed, r.measured/megabyte)
}

// place puts the node at the distance above the agent's threshold. When the rest of the
// machine uses too much memory for that, it waits until some is freed.
func (b *bench) place(ctx context.Context, a agent, distance int64) error {
	err := b.Ballast.Place(ctx, func() (int64, error) {
		available, err := b.available(a)
		return available - b.lines[a] - distance, err
	})
	if errors.Is(err, measure.ErrRestless) {
		return fmt.Errorf("%w: %w", errDisturbed, err)
	}
	return err
}

func (b *bench) available(a agent) (int64, error) {
	if a == byKubelet {
		return b.workingSet()
	}
	return memory.Kernel()
}

// release opens the gate and waits for the eviction.
func (b *bench) release(ctx context.Context, a agent, pod string, distance int64) (r result, err error) {
	if err = b.audit.Skip(); err != nil {
		return r, err
	}
	sampling, stop := context.WithCancel(ctx)
	var moments []moment
	var group errgroup.Group
	group.Go(func() (err error) {
		moments, err = b.sample(sampling, a)
		return err
	})
	err = os.WriteFile(filepath.Join(b.Dir, pod), nil, 0o600)
	var arrived act
	if err == nil {
		arrived, err = b.await(ctx, a)
	}
	stop()
	if unread := group.Wait(); unread != nil {
		return r, errors.Join(err, unread)
	}
	found, uncrossed := crossing(moments, b.lines[a], distance)
	switch {
	case err != nil:
		return r, missed(a, err, uncrossed)
	case uncrossed != nil:
		return r, uncrossed
	case arrived.pod != pod:
		return r, fmt.Errorf("%w: %s went, not %s", errDisturbed, arrived.pod, pod)
	case arrived.at.Before(found.crossed):
		return r, fmt.Errorf("%w: the act was before the crossing", errDisturbed)
	}
	found.sign, found.reaction, found.cpu = arrived.sign, arrived.at.Sub(found.crossed), spent(moments, found.crossed, arrived.at)
	return found, nil
}

// await waits for the sign of an eviction.
func (b *bench) await(ctx context.Context, a agent) (first act, err error) {
	var fault error
	err = node.Until(ctx, patience, func(context.Context) bool {
		var found bool
		first, found, fault = next(&b.audit, a)
		return found || fault != nil
	})
	if err = errors.Join(err, fault); err != nil {
		return first, fmt.Errorf("%w: nothing reached the API server within %v: %w", errDisturbed, patience, err)
	}
	// The log is in the order of the responses: an earlier request may be logged later.
	if err := measure.Sleep(ctx, 200*time.Millisecond); err != nil {
		return first, err
	}
	if later, found, err := next(&b.audit, a); err == nil && found && later.pod == first.pod && later.at.Before(first.at) {
		first = later
	}
	return first, nil
}
