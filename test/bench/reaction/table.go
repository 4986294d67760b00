package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// series are the runs of one agent at one rate.
type series struct {
	reactions []time.Duration
	rates     []float64
	gaps      []time.Duration
	podKills  int64
	allKills  int64
}

func (b *bench) series(a agent, share string, rate int64) series {
	var s series
	for i := range b.results {
		r := &b.results[i]
		if r.agent != a || r.share != share || r.rate != rate {
			continue
		}
		s.reactions = append(s.reactions, r.reaction)
		s.rates = append(s.rates, r.measured)
		s.gaps = append(s.gaps, r.gap)
		s.podKills += r.podKills
		s.allKills += r.allKills
	}
	return s
}

// print writes the table.
func (b *bench) print(out io.Writer) error {
	header := []string{
		"MB/s asked", "measured (median)", "agent", "CPU request", "n", "p50 ms", "p99 ms", "max ms",
		"sampler's gap p50 / max ms", "OOM kills pod / machine", "kubelet's median / evictd's",
	}
	var rows [][]string
	for _, share := range b.settings.shares() {
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
	own := b.series(byEvictd, share, rate)
	for _, a := range agents() {
		s := b.series(a, share, rate)
		if len(s.reactions) == 0 {
			continue
		}
		ratio := ""
		if fastest := measure.Quantile(own.reactions, half); a == byKubelet && fastest > 0 {
			ratio = fmt.Sprintf("%.0f", float64(measure.Quantile(s.reactions, half))/float64(fastest))
		}
		rows = append(rows, []string{
			strconv.FormatInt(rate/megabyte, 10), fmt.Sprintf("%.0f", measure.Median(s.rates)/megabyte),
			string(a), cmp.Or(share, "as shipped"), strconv.Itoa(len(s.reactions)),
			ms(measure.Quantile(s.reactions, half)), ms(measure.Quantile(s.reactions, almostAll)), ms(measure.Quantile(s.reactions, 1)),
			ms(measure.Quantile(s.gaps, half)) + " / " + ms(measure.Quantile(s.gaps, 1)),
			fmt.Sprintf("%d / %d", s.podKills, s.allKills), ratio,
		})
	}
	return rows
}

const (
	half      = 0.5
	almostAll = 0.99
)

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d.Microseconds())/1000) }
