package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/test/internal/fleet"
	"github.com/evictd/evictd/test/internal/measure"
)

// herd is what follows one end of the API server.
type herd struct {
	away      time.Duration // from its end to the first answer to an agent
	seconds   map[int]*second
	tenths    map[int]int // watch-lists and lists by tenths of a second
	first     time.Time   // of the answers
	took      []time.Duration
	missing   int
	kinds     map[string]int
	cpu       time.Duration // the new API server's, from its start until all are in sync
	own       time.Duration // the agents', over the same time
	wall      time.Duration // that time
	machine   measure.MachineCPU
	etcdReads float64 // lists of pods that the API server read from etcd
}

// second is what the agents sent in one second, from the first answer on.
type second struct{ answered, refused, failed int }

// herds ends the API server as often as wanted, and prints what its agents do.
func (b *bench) herds(ctx context.Context) error {
	var rows [][]string
	for range b.restarts {
		h, err := b.herd(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, h.row())
		fmt.Printf("\nthe agents' requests in each second since the first answer (answered / refused by the API server / without an answer): ")
		for i := range len(h.seconds) + 1 {
			if s := h.seconds[i]; s != nil {
				fmt.Printf(" %d: %d/%d/%d", i, s.answered, s.refused, s.failed)
			}
		}
		fmt.Printf("\nby kind and status code (0: no answer): %v\n", h.kinds)
	}
	fmt.Printf("\nthe API server is killed and starts again; %d agents; %s\n\n", b.calm.Agents(), measure.Machine())
	return measure.Table(os.Stdout, []string{
		"until the first answer s", "most requests/s answered", "most requests/s in all", "most lists in a tenth of a second", "in sync after the first answer, p50 / p99 / all s",
		"not in sync", "lists of pods from etcd", "CPU s of the API server", "CPU s of the agents", "over s", "machine idle / stolen %",
	}, rows)
}

func (b *bench) herd(ctx context.Context) (*herd, error) {
	begin := time.Now()
	machine, err := measure.ReadMachineCPU()
	if err != nil {
		return nil, err
	}
	own, err := measure.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	if err = b.server.kill(ctx); err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go func() { started <- b.server.cluster.StartProcess(ctx, apiServer) }()
	const quiet, patience = 10 * time.Second, 3 * time.Minute
	h := &herd{seconds: map[int]*second{}, tenths: map[int]int{}, kinds: map[string]int{}}
	took, missing, err := b.calm.Restored(ctx, begin, quiet, patience)
	if err != nil {
		return nil, err
	}
	if late := <-started; late != nil { // what its agents do meanwhile is what is measured
		fmt.Println("the API server was not ready in time: ", strings.SplitN(late.Error(), "\n", 2)[0]) //nolint:mnd // the first line
	}
	h.missing = missing
	h.count(b.calm.Requests().Since(begin), begin)
	for _, t := range took {
		h.took = append(h.took, t-h.away)
	}
	if h.cpu, _, err = b.server.usage(apiServer); err != nil {
		return nil, err
	}
	ownNow, err := measure.CPU(os.Getpid())
	if err != nil {
		return nil, err
	}
	now, err := measure.ReadMachineCPU()
	if err != nil {
		return nil, err
	}
	h.own, h.machine, h.wall = ownNow-own, now.Since(machine), time.Since(begin)
	families, err := b.server.metrics(ctx)
	if err != nil {
		return nil, err
	}
	h.etcdReads, _ = families.Sum("etcd_request_duration_seconds", "operation", "list", "resource", "pods")
	return h, nil
}

// count sorts the requests since the API server's end.
func (h *herd) count(requests []fleet.Request, begin time.Time) {
	for i := range requests {
		r := &requests[i]
		if answered := r.At.Add(r.Took); r.Code != 0 && r.At.After(begin) && (h.first.IsZero() || answered.Before(h.first)) {
			h.first = answered
		}
	}
	h.away = h.first.Sub(begin)
	for i := range requests {
		h.sort(&requests[i], begin)
	}
}

// sort counts one request.
func (h *herd) sort(r *fleet.Request, begin time.Time) {
	h.kinds[fmt.Sprintf("%s %d", r.Kind, r.Code)]++
	if r.Kind == fleet.WatchList || r.Kind == fleet.List {
		h.tenths[int(r.At.Sub(begin)/(time.Second/10))]++
	}
	bin := int(r.At.Sub(h.first) / time.Second)
	if r.At.Before(h.first) {
		if r.Code == 0 {
			return // while it was away
		}
		bin = 0
	}
	s := h.seconds[bin]
	if s == nil {
		s = &second{}
		h.seconds[bin] = s
	}
	switch {
	case r.Succeeded():
		s.answered++
	case r.Code != 0:
		s.refused++
	default:
		s.failed++
	}
}

func (h *herd) row() []string {
	answered, all := 0, 0
	for _, s := range h.seconds {
		answered, all = max(answered, s.answered), max(all, s.answered+s.refused+s.failed)
	}
	lists := 0
	for _, n := range h.tenths {
		lists = max(lists, n)
	}
	const half, almostAll, percent = 0.5, 0.99, 100
	whole := (h.machine.Busy + h.machine.Idle + h.machine.Stolen).Seconds()
	last := time.Duration(0)
	if len(h.took) > 0 {
		last = slices.Max(h.took)
	}
	return []string{
		fmt.Sprintf("%.1f", h.away.Seconds()), fmt.Sprint(answered), fmt.Sprint(all), fmt.Sprint(lists),
		fmt.Sprintf("%.1f / %.1f / %.1f", measure.Quantile(h.took, half).Seconds(), measure.Quantile(h.took, almostAll).Seconds(), last.Seconds()),
		fmt.Sprint(h.missing), fmt.Sprintf("%.0f", h.etcdReads),
		fmt.Sprintf("%.1f", h.cpu.Seconds()), fmt.Sprintf("%.1f", h.own.Seconds()), fmt.Sprintf("%.0f", h.wall.Seconds()),
		fmt.Sprintf("%.0f / %.1f", percent*h.machine.Idle.Seconds()/whole, percent*h.machine.Stolen.Seconds()/whole),
	}
}
