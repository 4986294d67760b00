package record_test

import (
	"fmt"
	"strings"
	"testing"
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
	expect(t, r, "evictd_node_taints", "evictd.dev/disk-pressure 0", "evictd.dev/memory-pressure 1", "evictd.dev/pid-pressure 0")
}
