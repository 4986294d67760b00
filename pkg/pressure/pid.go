package pressure

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
)

// initialPIDNamespace is what /proc/self/ns/pid shows in the host's PID namespace
// (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialPIDNamespace = "pid:[4026531836]"

// errPIDNamespace: since Linux 6.14 the kernel keeps pid_max for each PID namespace, and a
// process reads the one of its own namespace, whichever /proc it uses.
var errPIDNamespace = errors.New(
	"preparing pid.available: since Linux 6.14 the node's pid_max can only be read in the host's PID namespace; give the pod hostPID: true or remove the threshold")

// findPIDs fails where the limit can never be read, instead of a signal that stays unknown: it would
// block every eviction.
func (n *Node) findPIDs() error {
	if !n.wants(PIDAvailable) {
		return nil
	}
	loadavg, pidMax, threadsMax := n.file("/proc/loadavg"), n.file("/proc/sys/kernel/pid_max"), n.file("/proc/sys/kernel/threads-max")
	n.readers[PIDAvailable] = func(time.Time) Observation { return n.pids(loadavg, pidMax, threadsMax) }
	return pidMaxVisible(n.sys)
}

// pidMaxVisible returns nil when the node's pid_max can be read from here.
func pidMaxVisible(sys system) error {
	release, err := sys.release()
	var major, minor uint
	if err == nil {
		_, err = fmt.Sscanf(release, "%d.%d", &major, &minor)
	}
	if err != nil {
		return fmt.Errorf("reading the kernel's release %q for pid.available: %w", release, err)
	}
	namespace, err := sys.pidNamespace()
	switch {
	case major < 6, major == 6 && minor < 14:
		return nil
	case err != nil:
		return fmt.Errorf("looking for the PID namespace for pid.available: %w", err)
	case namespace != initialPIDNamespace:
		return errPIDNamespace
	}
	return nil
}

// pids reads pid.available as the kubelet does (pkg/kubelet/stats/pidlimit): the smaller of two limits
// minus the tasks that exist.
func (n *Node) pids(loadavg *kernelfile.File, limits ...*kernelfile.File) Observation {
	running, err := kernelfile.Parse(loadavg, n.buffer, kernelfile.Tasks)
	if err != nil {
		return unknown(err)
	}
	smallest := int64(math.MaxInt64)
	for _, file := range limits {
		limit, err := kernelfile.Parse(file, n.buffer, kernelfile.Number)
		if err == nil && limit == 0 {
			err = fmt.Errorf("reading %s: the limit is 0", file.Path)
		}
		if err != nil {
			return unknown(err)
		}
		smallest = min(smallest, limit)
	}
	return Observation{State: Known, Available: smallest - running, Capacity: smallest}
}
