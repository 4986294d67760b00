package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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
	// calm is how long no incident is open before evictd's own use is read. On a calm node evictd looks at its pods once
	// a minute, for the record, and keeps three files of each open until it sees that the pod has gone: before, the open
	// files count the pods of the round.
	calm = time.Minute + transition
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

// soak plays rounds with one evictd, and judges them: no pod may have been evicted that its scenario does not name,
// every incident must have ended in its round, and evictd may not have grown.
func (b *bench) soak(ctx context.Context) error {
	random := rand.New(rand.NewPCG(b.settings.seed, 0)) //nolint:gosec // an order
	log := audit.Log{Path: b.Node.Cluster.AuditLog()}
	var own vitals
	var wrong []error
	b.Say("seed %d; rounds begin for %v", b.settings.seed, b.settings.soak)
	number := 0
	for number == 0 || time.Since(b.Started) < b.settings.soak {
		number++
		// In the last two thirds evictd's process stays the same, so that what it uses can be followed.
		meanwhile := pick(random, faults())
		for meanwhile.restarts && time.Since(b.Started) > b.settings.soak/3 {
			meanwhile = pick(random, faults())
		}
		played := scenarioOf(*find(pick(random, b.settings.only)), &meanwhile, time.Duration(random.Int64N(int64(faultWithin))))
		title := fmt.Sprintf("round %d (%s, meanwhile %s)", number, played.Name, meanwhile.name)
		b.Say("%s", title)
		err := b.round(ctx, &played, &meanwhile, number)
		count, others, unread := evicted(&log, played.Smallest)
		if err = errors.Join(err, unread); err == nil {
			err = own.take(ctx, b.Node)
		}
		if err != nil {
			last, _ := b.Node.Kubectl(context.WithoutCancel(ctx), "-n", node.Namespace, "logs", "ds/evictd", "--tail=40") // beside the error
			return fmt.Errorf("%s: %w; evictd's last lines:\n%s", title, err, last)
		}
		b.Say("round %d: %d evictions, %d of them wrong", number, count, len(others))
		for _, pod := range others {
			wrong = append(wrong, fmt.Errorf("%s: %s was evicted, and the scenario does not name it", title, pod))
		}
	}
	fmt.Printf("\n%s; seed %d; %d rounds in %v\n", measure.Machine(), b.settings.seed, number, time.Since(b.Started).Round(time.Second))
	return errors.Join(append(wrong, own.grown(os.Stdout))...)
}

// round plays one scenario, and waits until the node is calm. It may evict more often than evictd does by default.
func (b *bench) round(ctx context.Context, played *Scenario, meanwhile *fault, number int) error {
	r, err := b.run(ctx, played, evictdArm, number, node.Policy{Transition: transition, Extra: played.Config})
	if err != nil {
		return err
	}
	b.lives = true
	if err = missing(played, r, meanwhile); err != nil {
		return err
	}
	held := time.Now()
	err = node.Until(ctx, 4*time.Minute, func(ctx context.Context) bool {
		read, unread := b.Node.Metrics(ctx)
		if holds, told := read.Sum("evictd_pressure"); unread != nil || !told || holds > 0 {
			held = time.Now()
		}
		return time.Since(held) > calm
	})
	if err != nil {
		return fmt.Errorf("waiting for the incidents of the round to end: %w", err)
	}
	if meanwhile.restarts { // the kubelet delays the restart of a container that has ended twice
		if err = errors.Join(b.Node.Renew(ctx), measure.Sleep(ctx, decide.CollectedWithin)); err != nil {
			return fmt.Errorf("replacing evictd's pod: %w", err)
		}
	}
	return nil
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// scenarioOf is a scenario as a round has it: with the fault as its last step.
func scenarioOf(played Scenario, meanwhile *fault, wait time.Duration) Scenario {
	played.Lasts = min(played.Lasts, roundLasts)
	if meanwhile.do != nil {
		played.Steps = append(slices.Clone(played.Steps), Step{What: meanwhile.name, Wait: after(wait), Do: meanwhile.do})
	}
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

// figures are those of evictd's own process that are followed, by their metrics, and by how much each may grow. The
// heap is collected rarely on a calm node, so that its size between two collections says little: a leak of a mebibyte
// in a run would be seen in the memory of the process too.
func figures() map[string]float64 {
	return map[string]float64{
		"process_resident_memory_bytes": 8 * mebibyte, "go_memstats_heap_inuse_bytes": 8 * mebibyte,
		"process_open_fds": 4, "go_goroutines": 4, "go_threads": 6,
	}
}

// vitals are the figures of evictd's last process, taken while the node is calm.
type vitals struct {
	started float64 // when the process started, as it says itself, in Unix seconds
	values  map[string][]float64
}

// take adds what evictd reports now. A new process begins anew, without its first report: it is still warming up.
func (v *vitals) take(ctx context.Context, n *node.Node) error {
	families, err := n.Metrics(ctx)
	if err != nil {
		return fmt.Errorf("following evictd's own use: %w", err)
	}
	if started, _ := families.Sum("process_start_time_seconds"); started != v.started {
		*v = vitals{started, map[string][]float64{}}
		return nil
	}
	for name := range figures() {
		value, there := families.Sum(name)
		if !there {
			return fmt.Errorf("following evictd's own use: /metrics has no %s", name)
		}
		v.values[name] = append(v.values[name], value)
	}
	return nil
}

// grown prints the medians of the first and the last third, and by how much each figure grew from the first report to the
// last: from the middle of the one third to that of the other are two thirds of them. It names those that grew more than
// they may.
func (v *vitals) grown(out io.Writer) (faults error) {
	for _, name := range slices.Sorted(maps.Keys(v.values)) {
		values := v.values[name]
		third := (len(values) + 2) / 3
		first, last := measure.Median(values[:third]), measure.Median(values[len(values)-third:])
		by := (last - first) * 3 / 2
		_, _ = fmt.Fprintf(out, "%s of evictd's last process, %d times: %.0f, at last %.0f; grew by %.1f\n", name, len(values), first, last, by)
		if most := figures()[name]; by > most {
			faults = errors.Join(faults, fmt.Errorf("%s grew by %.1f, which is more than %.0f", name, by, most))
		}
	}
	return faults
}
