package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
	"github.com/evictd/evictd/test/internal/pages"
)

// calmFor is how long nothing must happen until an incident is over: longer than the kubelet's
// interval of 10 s, so that it has looked once more.
const calmFor = 15 * time.Second

// looksEvery is how often a run looks whether that is so.
const looksEvery = 200 * time.Millisecond

// turn is one run of a scenario in one arm.
type turn struct {
	*bench

	scenario *Scenario
	arm      string
	name     string // of its result
	dir      string // for the pods' journals and start files
	pods     []Pod
	random   *rand.Rand // of the scenario and the run's number
	observer *observer
	gauge    *gauge
	over     time.Time // the latest end
	images   []string  // that the run has imported
	// notBefore is the earliest begin of the incident; zero is at once.
	notBefore time.Time
	// above is how far above evictd's line of the disk the incident begins, in bytes.
	above int64

	mu    sync.Mutex
	hosts []*exec.Cmd
}

// run is one run from its preparation to its removal.
func (b *bench) run(ctx context.Context, s *Scenario, arm string, number int, policy node.Policy) (r *Result, err error) {
	t := &turn{
		bench: b, scenario: s, arm: arm, pods: append(common(b.address), s.Pods...),
		random: rand.New(rand.NewPCG(uint64(number), uint64(s.Number))), //nolint:gosec // no secret; neither is negative
	}
	r = &Result{
		Scenario: s.Number, Name: s.Name, Arm: arm, Run: number,
		Smallest: s.Smallest, Innocents: s.innocents(), Signal: s.signal(),
		Source: b.settings.source, Commit: b.settings.commit, Kubernetes: b.kubernetes,
	}
	r.Machine, _, _ = strings.Cut(measure.Machine(), "; load average ")
	t.above = s.DiskAboveMiB<<20 + upTo(s.DiskVariesMiB, t.random)
	if err = t.makeDirs(r.file()); err != nil {
		return nil, err
	}
	if t.notBefore, err = b.arm(ctx, arm, s, policy); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.end(context.WithoutCancel(ctx))) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	if t.observer, err = observe(watching, b.Node.Client, namespace); err != nil {
		return nil, err
	}
	if s.Before != nil {
		if err := s.Before(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := t.deploy(ctx); err != nil {
		return nil, err
	}
	if s.Elsewhere {
		if _, err := b.Node.Kubectl(ctx, "cordon", b.Node.Name()); err != nil {
			return nil, err
		}
	}
	if err := t.place(ctx); err != nil {
		return nil, err
	}
	return r, t.incident(ctx, r)
}

func (t *turn) makeDirs(name string) error {
	t.name, t.dir = name, filepath.Join(t.Dir, name)
	for _, dir := range []string{t.dir, filepath.Join(t.dir, "journal"), filepath.Join(t.dir, "go")} {
		if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			return fmt.Errorf("making the run's folder: %w", err)
		}
		if err := os.Chmod(dir, 0o777); err != nil { //nolint:gosec // containers write into it
			return fmt.Errorf("opening the run's folder to containers: %w", err)
		}
	}
	return nil
}

// placeDisk puts the disk at the scenario's distance from evictd's line.
func (t *turn) placeDisk(ctx context.Context) error {
	const each = 2 * imageMiB * mebibyte
	held := each * int64(len(t.images))
	for i := range t.pods {
		if p := &t.pods[i]; p.Grows != nil && !p.Waits {
			held += p.Grows.MiB << 20
		}
	}
	if err := t.disk.back(ctx, held); err != nil {
		return err
	}
	return t.disk.place(ctx, t.disk.hard+t.above)
}

// fillTo returns what must be used of the disk beyond the start until that share of it is left,
// in bytes.
func (t *turn) fillTo(percent int64) int64 {
	const whole = 100
	return t.above + t.disk.hard - t.disk.size*percent/whole
}

// upTo returns a random number of bytes below that many MiB.
func upTo(mebibytes int64, random *rand.Rand) int64 { return random.Int64N(max(mebibytes<<20, 1)) }

// place puts the node at the scenario's distance from evictd's soft line, and its pods' cgroup
// under its limit. The distance varies with the seed, so that the kubelet looks at different
// moments, and both arms of a run have the same.
func (t *turn) place(ctx context.Context) error {
	if err := after(time.Until(t.notBefore))(ctx, t); err != nil {
		return err
	}
	const variesMiB = 200
	distance := t.lines.Soft - t.lines.End + (t.scenario.AboveMiB+t.scenario.takesAtOnceMiB())<<20
	if !t.scenario.Exact {
		distance += upTo(variesMiB, t.random)
	}
	if t.scenario.onDisk() {
		if err := t.placeDisk(ctx); err != nil {
			return err
		}
	}
	if err := t.room.place(ctx, t.lines.End+distance); err != nil {
		return err
	}
	pods, err := t.room.pods()
	if err != nil {
		return err
	}
	if err := t.safe(); err != nil {
		return err
	}
	return t.room.limit(pods.byKind + distance)
}

// incident does the scenario's steps and measures until it is over.
func (t *turn) incident(ctx context.Context, r *Result) error {
	kills, err := pressure.OOMKills("")
	if err != nil {
		return err
	}
	k := &keeper{room: &t.room, host: t.hostsHold, limit: t.room.limited.Load()}
	if k.base, err = k.use(); err != nil {
		return err
	}
	web := &client{}
	began := time.Now()
	t.over = began.Add(t.scenario.Lasts)
	t.gauge = newGauge(&t.lines, &t.disk)
	t.observer.begin(began)
	background, stop := context.WithCancel(ctx)
	group, background := errgroup.WithContext(background)
	group.Go(func() error { return measure.Every(background, gaugeEvery, t.gauge.reads(t.room.podsLeft)) })
	group.Go(func() error { return measure.Every(background, keeperEvery, k.correct) })
	group.Go(func() error { web.run(background, "http://"+t.address); return nil })
	err = t.steps(background)
	if err == nil {
		err = t.await(background)
	}
	stop()
	after, unread := pressure.OOMKills("")
	if err = errors.Join(err, group.Wait(), t.room.stillLimited(), unread); err != nil {
		return err
	}
	r.OOMKills, r.Disturbed, r.Asked, r.Failed = after-kills, k.off, web.asked, web.failed
	r.Ends, r.Violated, r.Timeline = t.observer.told(filepath.Join(t.dir, "journal"))
	r.Memory, r.Disk = t.gauge.seen[:], t.gauge.disks[:]
	return nil
}

// steps does the scenario's steps. One whose moment does not come in time is left out.
func (t *turn) steps(ctx context.Context) error {
	timed, cancel := context.WithDeadline(ctx, t.over)
	defer cancel()
	for _, step := range t.scenario.Steps {
		if step.Wait != nil {
			if err := step.Wait(timed, t); err != nil {
				if timed.Err() != nil && ctx.Err() == nil {
					t.observer.note("left out: " + step.What)
					return nil
				}
				return err
			}
		}
		t.observer.note(step.What)
		if err := step.Do(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", step.What, err)
		}
	}
	return nil
}

// await waits until the incident is over.
func (t *turn) await(ctx context.Context) error {
	for ctx.Err() == nil && time.Now().Before(t.over) && (t.scenario.Whole || !t.calm()) {
		if err := measure.Sleep(ctx, looksEvery); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// calm reports whether a pod has ended, none is leaving, and for a while none has ended and no
// line was crossed.
func (t *turn) calm() bool {
	s := t.observer.state()
	return s.ended > 0 && s.leaving == 0 && time.Since(s.last) > calmFor && time.Since(t.gauge.lastBelow()) > calmFor
}

// untilEnding waits until a pod is ended.
func untilEnding(ctx context.Context, t *turn) error {
	for t.observer.state().ended == 0 {
		if err := after(looksEvery)(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// end removes all that the run has made.
func (t *turn) end(ctx context.Context) error {
	freed := errors.Join(t.endHosts(), t.disk.release())
	var kept error
	if t.arm != kubeletArm && t.settings.soak == 0 {
		kept = t.keepLog(ctx, t.name)
	}
	_, cordoned := t.Node.Kubectl(ctx, "uncordon", t.Node.Name())
	return errors.Join(freed, kept, cordoned, t.room.limit(-1), t.room.ballast.Set(0), t.clear(ctx), t.removeImages(ctx))
}

// client is a steady client: it asks for a page at an interval, each time on a new connection, and waits a second at
// most.
type client struct{ asked, failed int }

// run asks until the context ends. It does not make up for what it has missed.
func (c *client) run(ctx context.Context, url string) {
	const every = 50 * time.Millisecond
	asks := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		_, code, err := pages.Get(ctx, asks, url)
		if ctx.Err() != nil {
			return // the last request was cut
		}
		c.asked++
		if err != nil || code != http.StatusOK {
			c.failed++
		}
	}, every)
}
