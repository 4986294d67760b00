package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// figure is one of the figures that evictd reports of its own process.
type figure struct {
	name, metric, unit string
	per                float64 // what one of the metric is in the unit
	// most is how much it may grow over the run, by the fitted line, in the unit.
	most float64
}

// figures returns those that must not grow. The heap is collected rarely on a calm node, so that
// its size between two collections says little: a leak of a mebibyte in a run would be seen in the
// memory of the process too.
func figures() []figure {
	const mebibyte = 1.0 / (1 << 20)
	return []figure{
		{"resident memory", "process_resident_memory_bytes", "MiB", mebibyte, 8},
		{"heap in use", "go_memstats_heap_inuse_bytes", "MiB", mebibyte, 8},
		{"open descriptors", "process_open_fds", "", 1, 4},
		{"goroutines", "go_goroutines", "", 1, 4},
		{"threads", "go_threads", "", 1, 6},
	}
}

// vitals are the figures of evictd's last process, taken while the node is calm.
type vitals struct {
	started float64 // when the process started, as it says itself, in Unix seconds
	at      []time.Time
	values  map[string][]float64
}

// take adds what evictd reports now. A new process begins anew, without its first report: it is
// still warming up.
func (v *vitals) take(ctx context.Context, n *node.Node) error {
	families, err := n.Metrics(ctx)
	if err != nil {
		return fmt.Errorf("following evictd's own use: %w", err)
	}
	started, _ := families.Sum("process_start_time_seconds")
	if started != v.started {
		*v = vitals{started: started, values: map[string][]float64{}}
		return nil
	}
	v.at = append(v.at, time.Now())
	for _, f := range figures() {
		value, there := families.Sum(f.metric)
		if !there {
			return fmt.Errorf("following evictd's own use: /metrics has no %s", f.metric)
		}
		v.values[f.name] = append(v.values[f.name], value*f.per)
	}
	return nil
}

// slope returns the slope of the line fitted to a figure by least squares, per hour, in its unit.
func (v *vitals) slope(f *figure) float64 {
	values := v.values[f.name]
	if len(values) < 2 {
		return 0
	}
	hours := make([]float64, len(values))
	for i := range values {
		hours[i] = v.at[i].Sub(v.at[0]).Hours()
	}
	return measure.LeastSquares(hours, values).Slope
}

// hours is how long the figures were followed.
func (v *vitals) hours() float64 {
	if len(v.at) == 0 {
		return 0
	}
	return v.at[len(v.at)-1].Sub(v.at[0]).Hours()
}

// grown names the figures that grew more than they may.
func (v *vitals) grown() (faults []error) {
	for _, f := range figures() {
		if by := v.slope(&f) * v.hours(); by > f.most {
			faults = append(faults, fmt.Errorf("%s grew by %.1f %s in %.0f minutes, which is more than %.0f",
				f.name, by, f.unit, v.hours()*time.Hour.Minutes(), f.most))
		}
	}
	return faults
}

func (v *vitals) print(out io.Writer) error {
	var rows [][]string
	for _, f := range figures() {
		values := v.values[f.name]
		if len(values) == 0 {
			continue
		}
		name := f.name
		if f.unit != "" {
			name += " (" + f.unit + ")"
		}
		rows = append(rows, []string{
			name, fmt.Sprintf("%.1f", values[0]), fmt.Sprintf("%.1f", measure.Median(values)),
			fmt.Sprintf("%.1f", values[len(values)-1]), fmt.Sprintf("%+.2f", v.slope(&f)),
		})
	}
	_, _ = fmt.Fprintf(out, "evictd's last process, %d times in %.0f minutes, each on a calm node:\n\n", len(v.at), v.hours()*time.Hour.Minutes())
	if err := measure.Table(out, []string{"figure", "first", "median", "last", "slope per hour"}, rows); err != nil {
		return fmt.Errorf("printing evictd's own use: %w", err)
	}
	return nil
}
