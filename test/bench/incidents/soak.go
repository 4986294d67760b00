package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/test/internal/audit"
	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

const (
	// roundLasts is the longest incident of a soak: a pod that comes back does so twice by then.
	roundLasts = 150 * time.Second
	// faultWithin is when a fault comes at the latest: a slow leak is not at evictd's hard line before.
	faultWithin = 20 * time.Second
	// transition is how long a signal must be above its target before an incident ends.
	transition = 10 * time.Second
)

// quick are the scenarios of a soak: those of memory and disk that are over soon, and in which every pod that
// evictd ends is named.
func quick() []int { return []int{1, 3, 6, 7, 8, 9, 10, 12, 18} }

// fault is what goes wrong during a round, beside the incident.
type fault struct {
	name string
	do   func(context.Context, *turn) error // nil is nothing
	// restarts says that evictd's process is another one afterwards.
	restarts bool
}

// faults returns all of them. Half of the rounds have none.
func faults() []fault {
	none := fault{name: "nothing"}
	return []fault{
		none, none, none,
		{name: "the API server pauses for 5 s", do: pausing(5 * time.Second)},
		{name: "the API server pauses for 15 s", do: pausing(15 * time.Second)},
		{name: "the API server restarts", do: func(ctx context.Context, t *turn) error { return t.restart(ctx, apiServer) }},
		{name: "evictd is killed", do: killEvictd, restarts: true},
		{name: "evictd's pod is replaced", do: func(ctx context.Context, t *turn) error { return t.Node.Renew(ctx) }, restarts: true},
	}
}

// pausing returns a fault in which the API server answers nothing and keeps its connections.
func pausing(d time.Duration) func(context.Context, *turn) error {
	return func(ctx context.Context, t *turn) error {
		if err := t.Node.Cluster.Signal(apiServer, syscall.SIGSTOP); err != nil {
			return err
		}
		return errors.Join(after(d)(ctx, t), t.Node.Cluster.Signal(apiServer, syscall.SIGCONT))
	}
}

// soak is rounds of the quick scenarios with one evictd that lives on.
type soak struct {
	*bench

	random *rand.Rand
	audit  audit.Log
	vitals vitals
	log    logbook
	rounds int     // that are over
	wrong  []error // pods that were evicted, and should not have been
}

// soak runs rounds until the time is over, and judges them: no pod may have been evicted that its scenario does
// not name, every incident must have ended in its round, and evictd may not have grown.
func (b *bench) soak(ctx context.Context) error {
	s := &soak{bench: b, random: rand.New(rand.NewPCG(b.settings.seed, 0))} //nolint:gosec // an order
	s.audit.Path = b.Node.Cluster.AuditLog()
	s.Say("seed %d; rounds begin for %v", b.settings.seed, b.settings.soak)
	for s.rounds == 0 || time.Since(s.Started) < s.settings.soak {
		if err := s.round(ctx, s.rounds+1); err != nil {
			last, _ := s.Node.Kubectl(context.WithoutCancel(ctx), "-n", node.Namespace, "logs", "ds/evictd", "--tail=40") // beside the error
			return fmt.Errorf("round %d: %w; evictd's last lines:\n%s", s.rounds+1, err, last)
		}
		s.rounds++
	}
	fmt.Printf("\n%s; seed %d; %d rounds in %v\n", measure.Machine(), s.settings.seed, s.rounds, time.Since(s.Started).Round(time.Second))
	return errors.Join(append(s.wrong, s.vitals.print(os.Stdout), s.vitals.grown())...)
}

// round plays one scenario with one fault meanwhile, and waits until the node is calm again.
func (s *soak) round(ctx context.Context, number int) error {
	meanwhile := s.pickFault()
	played := s.scenario(*find(pick(s.random, s.settings.only)), &meanwhile, number)
	s.Say("round %d: %s; meanwhile %s", number, played.Name, meanwhile.name)
	r, err := s.run(ctx, &played, evictdArm, number)
	if err == nil {
		s.lives = true
		err = errors.Join(missing(&played, r, &meanwhile), s.calm(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s, meanwhile %s: %w", played.Name, meanwhile.name, err)
	}
	count, wrong, err := evicted(&s.audit, played.Smallest)
	if err != nil {
		return err
	}
	s.Say("round %d: %d evictions, %d of them wrong", number, count, len(wrong))
	for _, pod := range wrong {
		s.wrong = append(s.wrong, fmt.Errorf("round %d (%s, %s): %s was evicted, and the scenario does not name it", number, played.Name, meanwhile.name, pod))
	}
	if meanwhile.restarts { // the kubelet delays the restart of a container that has ended twice
		s.log.restart()
		if err := errors.Join(s.Node.Renew(ctx), measure.Sleep(ctx, decide.CollectedWithin), s.log.read(ctx, s.Node)); err != nil {
			return fmt.Errorf("replacing evictd's pod: %w", err)
		}
	}
	return s.vitals.take(ctx, s.Node)
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// pickFault picks one. In the last two thirds of the run evictd's process stays the same, so that
// what it uses can be followed.
func (s *soak) pickFault() fault {
	for {
		f := pick(s.random, faults())
		if !f.restarts || time.Since(s.Started) < s.settings.soak/3 {
			return f
		}
	}
}

// scenario is a scenario as a round has it: with the fault as its last step, and with a configuration that is
// none of an earlier round's, so that evictd applies it. It may evict more often than it does by default.
func (s *soak) scenario(played Scenario, meanwhile *fault, number int) Scenario {
	played.Lasts = min(played.Lasts, roundLasts)
	played.Config += fmt.Sprintf("evictionPressureTransitionPeriod: %v\nlimits: {evictionsPerMinute: 60, perOwnerPerHour: 60, softJitter: 0s}\n",
		transition+time.Duration(number)*time.Millisecond)
	if meanwhile.do == nil {
		return played
	}
	played.Steps = append(slices.Clone(played.Steps), Step{
		What: meanwhile.name, Wait: after(time.Duration(s.random.Int64N(int64(faultWithin)))),
		Do: func(ctx context.Context, t *turn) error {
			if meanwhile.restarts {
				if err := s.log.read(ctx, t.Node); err != nil {
					return err
				}
				s.log.restart()
			}
			return meanwhile.do(ctx, t)
		},
	})
	return played
}

// missing says how many victims of the scenario evictd has not ended. Where a fault holds it up, and on a disk, whose
// lines are a second apart, the kubelet or the kernel may be first, by their own order.
func missing(played *Scenario, r *Result, meanwhile *fault) error {
	wanted := 0
	for _, n := range played.Smallest {
		if n == Any { // it comes back
			n = 2
		}
		wanted += n
	}
	own := r.by(byEvictd)
	ended, by := own.ended-own.beyond, "by evictd"
	if meanwhile.do != nil || played.onDisk() {
		ended, by = r.by(causes()...).ended, "by any"
	}
	if ended < wanted {
		return fmt.Errorf("%d victims have ended %s, want %d", ended, by, wanted)
	}
	return nil
}

// calm waits until no incident is open.
func (s *soak) calm(ctx context.Context) error {
	if err := measure.Sleep(ctx, transition); err != nil {
		return err
	}
	var unread error
	err := node.Until(ctx, 3*time.Minute, func(ctx context.Context) bool {
		unread = s.log.read(ctx, s.Node)
		return unread == nil && len(s.log.open) == 0
	})
	if err != nil {
		return fmt.Errorf("waiting for the incidents of the round to end: %w; open: %v", errors.Join(err, unread), s.log.open)
	}
	return nil
}

// evicted counts the pods for which an eviction was accepted since the audit log was last read, and names those
// that are none of the scenario's victims. The same pod twice is one: a request without an answer is sent again.
func evicted(log *audit.Log, victims map[string]int) (count int, wrong []string, err error) {
	events, err := log.Next()
	if err != nil {
		return 0, nil, fmt.Errorf("counting the evictions: %w", err)
	}
	seen := map[string]bool{}
	for i := range events {
		e := &events[i]
		name := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
		if !e.Evicts() || e.Response.Code != http.StatusCreated || seen[name] {
			continue
		}
		seen[name] = true
		count++
		named := false
		for app := range victims {
			named = named || strings.HasPrefix(name, namespace+"/"+app+"-")
		}
		if !named {
			wrong = append(wrong, name)
		}
	}
	return count, wrong, nil
}
