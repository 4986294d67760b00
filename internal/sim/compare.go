package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Compare replays a recording and writes a table for people: the requests of the record beside those of the replay.
func (n *Recording) Compare(w io.Writer, policy func(*config.EvictdConfiguration) agent.Policy) error {
	r, err := n.Replay(policy)
	if err != nil {
		return err
	}
	rows := append([][]string{{"TIME", "RECORDED", "REPLAYED"}}, pairs(n.requests, r.Requests)...)
	if len(rows) == 1 {
		rows = [][]string{{"no request was sent, neither in the record nor in the replay"}}
	}
	rows = append(rows, nil, []string{fmt.Sprintf("below a hard line in the replay: %v", r.Below.Round(time.Second/10))})
	alone := func(row []string) bool { return len(row) == 3 && (row[1] == "" || row[2] == "") }
	switch {
	case r.Model.IsZero() && slices.ContainsFunc(rows, alone):
		rows = append(rows, []string{"the record says too little of the node where a request is in one of them alone"})
	case !r.Model.IsZero():
		rows = append(rows, []string{"from " + clock(r.Model) + " on the replay is a model: a pod was evicted in one of them alone, or at another time"})
	default:
		rows = append(rows, []string{"the same pods were evicted"})
	}
	for _, s := range r.Unknown {
		rows = append(rows, []string{fmt.Sprintf("the record does not have %v: its thresholds are not met in the replay", s)})
	}
	return wording.Table(w, wording.Columns, rows)
}

// pairs returns a row for each request of a record and of a replay; for one that is in both a row for the two.
func pairs(was, is []Request) (rows [][]string) {
	for len(was)+len(is) > 0 {
		next := func(all, others []Request) bool {
			return len(all) > 0 && (len(others) == 0 || !others[0].Time.Before(all[0].Time) || all[0].same(&others[0]))
		}
		row, recorded, replayed := []string{"", "", ""}, next(was, is), next(is, was)
		if replayed {
			row[0], row[2], is = clock(is[0].Time), said(&is[0]), is[1:]
		}
		if recorded {
			row[0], row[1], was = clock(was[0].Time), said(&was[0]), was[1:]
		}
		rows = append(rows, row)
	}
	return rows
}

// same reports whether two requests are for the same pod at the same time.
func (r *Request) same(other *Request) bool {
	return r.UID == other.UID && r.Again == other.Again && r.Time.Sub(other.Time).Abs() <= r.near()
}

// said says what a request was.
func said(r *Request) string {
	switch {
	case r.Again && r.Outcome.Accepted():
		return "shortens the grace period of " + r.Pod
	case r.Outcome.Simulated():
		return "would evict " + r.Pod
	case r.Outcome.Accepted():
		return "evicts " + r.Pod
	default:
		return "asks for " + r.Pod + ": " + string(r.Outcome)
	}
}

func clock(at time.Time) string { return at.UTC().Format("01-02 15:04:05.0") }

// Suggest replays a recording with other hard lines of memory.available, and writes a table for people: what each would have
// come to. There is none where the policy has no such line.
func (n *Recording) Suggest(w io.Writer, policy func(*config.EvictdConfiguration) agent.Policy) error {
	last := n.readings[len(n.readings)-1]
	now := policy(last.config).Thresholds
	at := slices.IndexFunc(now, func(t pressure.Threshold) bool { return t.Hard && t.Signal == pressure.MemoryAvailable })
	if at < 0 {
		return errors.New("there is no hard line of memory.available to begin with; name a configuration by --config that has one")
	}
	line := now[at].Quantity.Of(last.seen[pressure.MemoryAvailable].capacity)
	shares := []float64{0.5, 0.75, 1, 1.5, 2}
	rows, failed := make([][]string, len(shares)), make([]error, len(shares))
	var all sync.WaitGroup
	for i, share := range shares {
		all.Go(func() { rows[i], failed[i] = n.withLine(policy, int64(share*float64(line))) })
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return wording.Table(w, wording.Columns, append([][]string{{"MEMORY.AVAILABLE", "EVICTIONS", "BELOW", "OOM KILLS", "VICTIM IN TIME", "MODEL FROM"}}, rows...))
}

// withLine replays a recording with that hard line of memory.available, in bytes, and returns a row.
func (n *Recording) withLine(policy func(*config.EvictdConfiguration) agent.Policy, line int64) ([]string, error) {
	r, err := n.Replay(func(c *config.EvictdConfiguration) agent.Policy {
		p := policy(c)
		p.Thresholds = slices.Clone(p.Thresholds)
		for i := range p.Thresholds {
			if t := &p.Thresholds[i]; t.Hard && t.Signal == pressure.MemoryAvailable {
				t.Quantity = pressure.Absolute(line)
			}
		}
		return p
	})
	if err != nil {
		return nil, err
	}
	evictions, model := 0, "-"
	for _, q := range r.Requests {
		if q.Outcome.Accepted() && !q.Again {
			evictions++
		}
	}
	if !r.Model.IsZero() {
		model = clock(r.Model)
	}
	return []string{rank.Bytes(line), fmt.Sprint(evictions), r.Below.Round(time.Second / 10).String(), fmt.Sprint(len(n.kills)), fmt.Sprint(r.InTime), model}, nil
}
