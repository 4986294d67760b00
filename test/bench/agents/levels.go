package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/pages"
)

// figures are the rows of the tables: two of a level, and behind them those of [bench.counts].
func figures() []string {
	return []string{
		"API server live heap and stacks MiB", "API server RSS MiB", "API server CPU", "etcd CPU",
		"agents' CPU", "agents' requests/s", "pods replaced/s",
	}
}

// counts are counted up since some time: seconds; the CPU times of the API server, of etcd and of the agents
// in ms; the agents' requests; pods replaced.
func (b *bench) counts() ([]float64, error) {
	now := float64(time.Now().UnixMicro()) / float64(time.Second/time.Microsecond)
	server, _, err := b.usage(apiServer)
	store, _, unread := b.usage(etcd)
	own, unknown := b.usedCPU()
	err = errors.Join(err, unread, unknown, b.journal.read())
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return []float64{now, ms(server), ms(store), ms(own), float64(len(b.journal.received)), float64(b.replaced)}, err
}

// part is one table: what goes on, and the figures of each level.
type part struct {
	title  string
	during func(context.Context, time.Duration) error
	levels [][]float64
}

// levels measures with no agent, with half of them and with all, and prints the tables.
func (b *bench) levels(ctx context.Context) error {
	if b.window == 0 {
		return nil
	}
	// Its memory is then that of what it holds, and not that of what it did.
	if err := errors.Join(b.killServer(ctx), b.cluster.StartProcess(ctx, apiServer)); err != nil {
		return err
	}
	parts := []*part{{title: "calm", during: measure.Sleep}, {title: "10 % of the pods of full nodes replaced in an hour", during: b.replaceFor}}
	const half, settles = 2, 30 * time.Second // the API server's own work after a start, and evictd's checks
	agents := []int{0, b.agents / half, b.agents}
	for _, n := range agents {
		if err := b.start(ctx, n); err != nil {
			return err
		}
		if err := measure.Sleep(ctx, settles); err != nil {
			return err
		}
		for _, p := range parts {
			if err := b.level(ctx, p); err != nil {
				return err
			}
		}
	}
	for _, p := range parts {
		fmt.Printf("\n%s; CPU in thousandths of a core; %v at each level; now %s\n\n", p.title, b.window, measure.Machine())
		if err := p.print(agents); err != nil {
			return err
		}
	}
	return nil
}

// heap collects the API server's garbage, and returns what is left in its heap and its stacks, in MiB.
func (b *bench) heap(ctx context.Context) (float64, error) {
	client := b.client.CoreV1().RESTClient()
	_, err := client.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").DoRaw(ctx)
	text, unread := client.Get().AbsPath("/metrics").DoRaw(ctx)
	if err = errors.Join(err, unread); err != nil {
		return 0, fmt.Errorf("reading the API server's memory: %w", err)
	}
	families, err := pages.ParseMetrics(string(text))
	heap, _ := families.Sum("go_memstats_heap_alloc_bytes")
	stacks, _ := families.Sum("go_memstats_stack_inuse_bytes")
	return (heap + stacks) / (1 << 20), err
}

// level adds a level. What is counted is for each second, so that ms are thousandths of a core.
func (b *bench) level(ctx context.Context, p *part) error {
	heap, err := b.heap(ctx)
	before, unread := b.counts()
	if err = errors.Join(err, unread); err == nil {
		err = p.during(ctx, b.window)
	}
	after, unread := b.counts()
	_, rss, unknown := b.usage(apiServer)
	level := []float64{heap, rss}
	for i := range after[1:] {
		level = append(level, (after[i+1]-before[i+1])/(after[0]-before[0]))
	}
	p.levels = append(p.levels, level)
	return errors.Join(err, unread, unknown)
}

// print prints the figures by the number of agents, and the slopes of their lines.
func (p *part) print(agents []int) error {
	header, x := []string{"agents"}, []float64{}
	for _, n := range agents {
		header, x = append(header, fmt.Sprint(n)), append(x, float64(n))
	}
	var rows [][]string
	for i, name := range figures() {
		var y []float64
		for _, level := range p.levels {
			y = append(y, level[i])
		}
		line, row := measure.LeastSquares(x, y), []string{name}
		for _, value := range append(y, line.Slope, line.Residual, 1000*line.Slope, 5000*line.Slope) {
			row = append(row, fmt.Sprintf("%.5g", value))
		}
		rows = append(rows, row)
	}
	return measure.Table(os.Stdout, append(header, "each agent", "residual of the line", "1,000 agents", "5,000 agents"), rows)
}
