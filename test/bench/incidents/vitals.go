package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// figure is one of the figures of evictd's own process.
type figure struct {
	name   string
	metric string  // of /metrics
	per    float64 // what one of the metric is in the figure's unit
	// most is how much it may grow over the run, by the fitted line.
	most float64
}

// figures returns those that are followed. The heap is collected rarely on a calm node, so that its size between
// two collections says little: a leak of a mebibyte in a run would be seen in the memory of the process too.
func figures() []figure {
	return []figure{
		{"resident memory (MiB)", "process_resident_memory_bytes", 1.0 / mebibyte, 8},
		{"heap in use (MiB)", "go_memstats_heap_inuse_bytes", 1.0 / mebibyte, 8},
		{"open descriptors", "process_open_fds", 1, 4},
		{"goroutines", "go_goroutines", 1, 4},
		{"threads", "go_threads", 1, 6},
	}
}

// vitals are the figures of evictd's last process, taken while the node is calm.
type vitals struct {
	started float64 // when the process started, as it says itself, in Unix seconds
	hours   []float64
	values  map[string][]float64
	first   time.Time
}

// take adds what evictd reports now. A new process begins anew, without its first report: it is still warming up.
func (v *vitals) take(ctx context.Context, n *node.Node) error {
	families, err := n.Metrics(ctx)
	if err != nil {
		return fmt.Errorf("following evictd's own use: %w", err)
	}
	started, _ := families.Sum("process_start_time_seconds")
	if started != v.started {
		*v = vitals{started: started, first: time.Now(), values: map[string][]float64{}}
		return nil
	}
	for _, f := range figures() {
		value, there := families.Sum(f.metric)
		if !there {
			return fmt.Errorf("following evictd's own use: /metrics has no %s", f.metric)
		}
		v.values[f.name] = append(v.values[f.name], value*f.per)
	}
	v.hours = append(v.hours, time.Since(v.first).Hours())
	return nil
}

// slope returns the slope of the line fitted to a figure, per hour.
func (v *vitals) slope(f *figure) float64 {
	if len(v.hours) < 2 {
		return 0
	}
	return measure.LeastSquares(v.hours, v.values[f.name]).Slope
}

// lasted is how many hours the figures were followed.
func (v *vitals) lasted() float64 {
	if len(v.hours) == 0 {
		return 0
	}
	return v.hours[len(v.hours)-1] - v.hours[0]
}

// grown names the figures that grew more than they may; nil is none.
func (v *vitals) grown() (faults error) {
	for _, f := range figures() {
		if by := v.slope(&f) * v.lasted(); by > f.most {
			faults = errors.Join(faults, fmt.Errorf("%s grew by %.1f in %.0f minutes, which is more than %.0f", f.name, by, v.lasted()*time.Hour.Minutes(), f.most))
		}
	}
	return faults
}

func (v *vitals) print(out io.Writer) error {
	var rows [][]string
	for _, f := range figures() {
		if values := v.values[f.name]; len(values) > 0 {
			rows = append(rows, []string{
				f.name, fmt.Sprintf("%.1f", values[0]), fmt.Sprintf("%.1f", measure.Median(values)),
				fmt.Sprintf("%.1f", values[len(values)-1]), fmt.Sprintf("%+.2f", v.slope(&f)),
			})
		}
	}
	_, _ = fmt.Fprintf(out, "\nevictd's last process, %d times in %.0f minutes, each on a calm node:\n\n", len(v.hours), v.lasted()*time.Hour.Minutes())
	return measure.Table(out, []string{"figure", "first", "median", "last", "slope per hour"}, rows)
}

// logbook is what evictd's log says of incidents, over its restarts.
type logbook struct {
	before []string // the IDs of incidents that the processes before have begun and not ended
	open   []string // those of all processes so far
}

// read reads the log of the running process.
func (l *logbook) read(ctx context.Context, n *node.Node) error {
	text, err := n.Log(ctx)
	if err == nil {
		l.take(text)
	}
	return err
}

// take takes all that the running process has written.
func (l *logbook) take(text string) {
	l.open = slices.Clone(l.before)
	for line := range strings.Lines(text) {
		var read struct {
			Message  string `json:"msg"`
			Incident string `json:"incident"`
		}
		if !strings.Contains(line, `"incident `) || json.Unmarshal([]byte(line), &read) != nil {
			continue
		}
		switch read.Message {
		case "incident began": // again after a restart
			l.open = append(l.open, read.Incident)
		case "incident ended":
			l.open = slices.DeleteFunc(l.open, func(id string) bool { return id == read.Incident })
		}
	}
}

// restart says that the log is of another process from now on.
func (l *logbook) restart() { l.before = l.open }
