package cluster

import (
	"strings"
	"testing"
)

func TestTracesNameWhatIsLeft(t *testing.T) {
	before := Traces{found: []string{"the folder /opt/cni"}, sysctls: map[string]string{"kernel/panic": "0", "vm/panic_on_oom": "0"}}
	if err := before.since(before); err != nil {
		t.Errorf("nothing has changed: %v", err)
	}
	gone := Traces{sysctls: before.sysctls}
	if err := gone.since(before); err != nil {
		t.Errorf("what has gone was not left by a node: %v", err)
	}
	after := Traces{
		found:   []string{"the folder /opt/cni", "the cgroup /sys/fs/cgroup/cpu/evictd-node-1"},
		sysctls: map[string]string{"kernel/panic": "10", "vm/panic_on_oom": "0"},
	}
	err := after.since(before)
	if err == nil {
		t.Fatal("nothing is named")
	}
	for _, want := range []string{"evictd-node-1", "kernel/panic at 10, which was 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != 2 {
		t.Errorf("%d lines, want 2: %v", lines, err)
	}
}

// Nothing starts meanwhile, so nothing is left: the machine can be read.
func TestTracesAreRead(t *testing.T) {
	before, err := ReadTraces()
	if err != nil {
		t.Fatal(err)
	}
	if len(before.sysctls) == 0 {
		t.Error("no setting of the kernel was read")
	}
}
