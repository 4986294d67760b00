// Package measure holds the common parts of the benchmarks on a running node: quantiles,
// tables, and a description of the machine.
package measure

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
)

// Quantile returns the smallest value that at least the share q of all values does not
// exceed. With twenty values the 99th percentile is the largest, because it does not
// interpolate between measured values. Zero without values.
func Quantile[T cmp.Ordered](values []T, q float64) (value T) {
	if len(values) == 0 {
		return value
	}
	rank := int(math.Ceil(q * float64(len(values))))
	return slices.Sorted(slices.Values(values))[max(rank-1, 0)]
}

// Median is the quantile of one half.
func Median[T cmp.Ordered](values []T) T { return Quantile(values, 0.5) }

// Each returns one figure of each.
func Each[T, V any](all []T, of func(*T) V) []V {
	values := make([]V, len(all))
	for i := range all {
		values[i] = of(&all[i])
	}
	return values
}

// Table writes rows as a Markdown table whose columns are aligned for a terminal.
func Table(out io.Writer, header []string, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 1, ' ', tabwriter.Debug)
	rule := make([]string, len(header))
	for i := range rule {
		rule[i] = "---"
	}
	for _, row := range append([][]string{header, rule}, rows...) {
		// The writer puts a bar behind each cell; this is the first one.
		_, _ = fmt.Fprintf(w, "| %s\t\n", strings.Join(row, "\t "))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing a table: %w", err)
	}
	return nil
}

// Machine describes the machine in one line, without its name.
func Machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // unknown is said as such
	total, _ := Bytes("/proc/meminfo", "MemTotal")
	groups := "cgroup v1"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		groups = "cgroup v2"
	} else if hybrid, _ := filepath.Glob("/sys/fs/cgroup/unified/cgroup.procs"); len(hybrid) > 0 {
		groups = "cgroup v1 (hybrid)"
	}
	return fmt.Sprintf("%d cores, %.1f GiB, Linux %s, %s, %s; load average %s",
		runtime.NumCPU(), float64(total)/(1<<30), strings.TrimSpace(string(kernel)), groups, runtime.Version(), Load())
}

// Load returns the load averages of 1, 5 and 15 minutes; "" where they cannot be read.
func Load() string {
	averages, _ := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(averages))
	return strings.Join(fields[:min(3, len(fields))], " ")
}

// Run is the main function of a benchmark's program. It runs the benchmark until it is done,
// or an interrupt ends its context, prints its error and returns the exit code.
func Run(name string, run func(ctx context.Context, arguments []string) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, name+":", err)
		return 1
	}
	return 0
}
