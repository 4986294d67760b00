package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// few is how many agents connect at once to measure what one of them costs.
const few = 10

// sync is the cost of an agent's start: TLS, its token, its rights, its node, its pods.
type syncCost struct {
	pods                int
	cpu, etcdCPU        float64 // ms
	received, sent, own float64 // in bytes, but the agent's own CPU time in ms
}

// syncs measures the start of an agent on nodes of the usual number of pods and on full ones, and
// returns the cost on a full one.
func (b *bench) syncs(ctx context.Context) (syncCost, error) {
	usual, err := b.sync(ctx, b.pods)
	if err != nil {
		return usual, err
	}
	for i := range few {
		if err = b.calm.Fill(ctx, i, b.density-b.pods); err != nil {
			return usual, err
		}
	}
	full, err := b.sync(ctx, b.density)
	if err != nil {
		return usual, err
	}
	per := func(a, b, pods float64) float64 { return (a - b) / pods }
	more := float64(full.pods - usual.pods)
	rows := [][]string{usual.row(fmt.Sprint(usual.pods)), full.row(fmt.Sprint(full.pods))}
	if more > 0 {
		slope := syncCost{
			cpu: per(full.cpu, usual.cpu, more), etcdCPU: per(full.etcdCPU, usual.etcdCPU, more),
			received: per(full.received, usual.received, more), sent: per(full.sent, usual.sent, more), own: per(full.own, usual.own, more),
		}
		rows = append(rows, slope.row("each pod more"))
	}
	fmt.Printf("\nthe start of one agent; medians of %d rounds of %d agents that start at once\n\n", b.rounds, few)
	return full, measure.Table(os.Stdout, []string{
		"pods on its node", "API server CPU ms", "etcd CPU ms", "to the agent, bytes", "from the agent, bytes", "the agent's own CPU ms",
	}, rows)
}

func (c *syncCost) row(name string) []string {
	return []string{
		name, fmt.Sprintf("%.2f", c.cpu), fmt.Sprintf("%.2f", c.etcdCPU), fmt.Sprintf("%.0f", c.received), fmt.Sprintf("%.0f", c.sent),
		fmt.Sprintf("%.2f", c.own),
	}
}

func (b *bench) sync(ctx context.Context, pods int) (syncCost, error) {
	var rounds []window
	for range b.rounds {
		before, err := b.server.read()
		if err != nil {
			return syncCost{}, err
		}
		if err = b.calm.Connect(ctx, 0, few); err != nil {
			return syncCost{}, err
		}
		after, err := b.server.read()
		if err != nil {
			return syncCost{}, err
		}
		if err = b.connections(ctx, few); err != nil {
			return syncCost{}, err
		}
		rounds = append(rounds, between(&before, &after))
		if err = b.calm.Disconnect(ctx); err != nil {
			return syncCost{}, err
		}
		if err = b.connections(ctx, 0); err != nil {
			return syncCost{}, err
		}
	}
	each := func(of func(*window) float64) float64 {
		return median(rounds, func(w *window) float64 { return of(w) * w.seconds / few })
	}
	return syncCost{
		pods: pods,
		// Thousandths of a core for some seconds are milliseconds.
		cpu:      each(func(w *window) float64 { return w.cpu }),
		etcdCPU:  each(func(w *window) float64 { return w.etcdCPU }),
		received: each(func(w *window) float64 { return w.received }),
		sent:     each(func(w *window) float64 { return w.sent }),
		own:      each(func(w *window) float64 { return w.own }),
	}, nil
}

// connections waits until the agents have so many connections: one each. Of two that are opened at
// once by an agent's first requests, client-go's transport closes one.
func (b *bench) connections(ctx context.Context, want int) error {
	const patience, often = 100, 100 * time.Millisecond
	n := 0
	for range patience {
		b.calm.Hangup()
		if n = len(b.server.traffic()); n == want {
			return nil
		}
		if err := measure.Sleep(ctx, often); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d agents have %d connections, and each should have one", want, n)
}
