package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// series are the runs of one agent at one rate.
func (b *bench) series(a agent, share string, rate int64) []result {
	return slices.DeleteFunc(slices.Clone(b.results), func(r result) bool { return r.agent != a || r.share != share || r.rate != rate })
}

// print writes the table.
func (b *bench) print(out io.Writer) error {
	header := []string{
		"MB/s asked", "measured (median)", "agent", "CPU request", "n", "p50 ms", "p99 ms", "max ms", "evictd's CPU in it p50 / max ms",
		"sampler's gap p50 / max ms", "OOM kills", "kubelet's median / evictd's",
	}
	var rows [][]string
	for _, share := range b.settings.cpus {
		for _, rate := range b.settings.rates {
			rows = append(rows, b.rows(share, rate)...)
		}
	}
	_, _ = fmt.Fprintf(out, "\n%s; %d pods on the node; %d disturbed runs done again\n\n", measure.Machine(), b.settings.pods, b.repeated)
	return measure.Table(out, header, rows)
}

// rows are those of one rate.
func (b *bench) rows(share string, rate int64) [][]string {
	var rows [][]string
	reaction := func(r *result) time.Duration { return r.reaction }
	own := measure.Median(measure.Each(b.series(byEvictd, share, rate), reaction))
	for _, a := range agents() {
		s := b.series(a, share, rate)
		if len(s) == 0 {
			continue
		}
		reactions, gaps := measure.Each(s, reaction), measure.Each(s, func(r *result) time.Duration { return r.gap })
		used := measure.Each(s, func(r *result) time.Duration { return r.cpu })
		kills := int64(0)
		for i := range s {
			kills += s[i].kills
		}
		ratio := ""
		if a == byKubelet && own > 0 {
			ratio = fmt.Sprintf("%.0f", float64(measure.Median(reactions))/float64(own))
		}
		rows = append(rows, []string{
			strconv.FormatInt(rate/megabyte, 10), fmt.Sprintf("%.0f", measure.Median(measure.Each(s, func(r *result) float64 { return r.measured }))/megabyte),
			string(a), cmp.Or(share, "as shipped"), strconv.Itoa(len(s)),
			ms(measure.Median(reactions)), ms(measure.Quantile(reactions, almostAll)), ms(measure.Quantile(reactions, 1)),
			ms(measure.Median(used)) + " / " + ms(measure.Quantile(used, 1)),
			ms(measure.Median(gaps)) + " / " + ms(measure.Quantile(gaps, 1)),
			strconv.FormatInt(kills, 10), ratio,
		})
	}
	return rows
}

const almostAll = 0.99

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
