package record_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestTaintsAreLoggedAndCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const memory, disk = "evictd.dev/memory-pressure", "evictd.dev/disk-pressure"
	r.Tainted([]string{memory}, []string{disk}, false)
	r.Tainted([]string{disk}, nil, true)
	var got []string
	for _, line := range r.lines(t) {
		got = append(got, fmt.Sprint(line["msg"], " ", line["taints"]))
		if dryRun := line["dry_run"] == true; dryRun != (len(got) == 3) {
			t.Errorf("dry run %t in line %d", dryRun, len(got))
		}
	}
	want := "tainted the node [" + memory + "]; removed the node's taint [" + disk + "]; tainted the node [" + disk + "]"
	if strings.Join(got, "; ") != want {
		t.Errorf("logged %v, want %s", got, want)
	}
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(`# HELP evictd_node_taints 1 while the node carries the taint of evictd's own, as far as evictd knows.
# TYPE evictd_node_taints gauge
evictd_node_taints{taint="evictd.dev/disk-pressure"} 0
evictd_node_taints{taint="evictd.dev/memory-pressure"} 1
evictd_node_taints{taint="evictd.dev/pid-pressure"} 0
`), "evictd_node_taints"); err != nil {
		t.Error(err)
	}
}

func TestFailuresOfTaintAreCountedAndLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		r.TaintError(errors.New("planted"))
	}
	*r.now = r.now.Add(2 * time.Minute)
	r.TaintError(errors.New("planted"))
	if lines := r.lines(t); len(lines) != 2 || lines[1]["repeats"] != 2. || lines[1]["error"] != "planted" {
		t.Errorf("logged %v", lines)
	}
	if err := testutil.GatherAndCompare(r.registry, strings.NewReader(`# HELP evictd_taint_errors_total Failures to set or remove the node's taint; they are tried again.
# TYPE evictd_taint_errors_total counter
evictd_taint_errors_total 4
`), "evictd_taint_errors_total"); err != nil {
		t.Error(err)
	}
}
