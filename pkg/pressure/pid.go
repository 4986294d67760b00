package pressure

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/evictd/evictd/internal/kernelfile"
)

// pidSource reads pid.available as the kubelet does (pkg/kubelet/stats/pidlimit):
// the smaller of two limits minus the tasks that exist.
type pidSource struct {
	loadavg *kernelfile.File
	limits  []*kernelfile.File
}

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
	p := &pidSource{n.file("/proc/loadavg"), []*kernelfile.File{n.file("/proc/sys/kernel/pid_max"), n.file("/proc/sys/kernel/threads-max")}}
	n.readers[PIDAvailable] = func(time.Time) Observation { return p.observe(n.buffer) }
	return pidMaxVisible(n.sys)
}

// pidMaxVisible returns nil when the node's pid_max can be read from here.
func pidMaxVisible(sys system) error {
	release, err := sys.release()
	perNamespace := false
	if err == nil {
		perNamespace, err = atLeast(release, 6, 14)
	}
	if err != nil {
		return fmt.Errorf("reading the kernel's release for pid.available: %w", err)
	}
	namespace, err := sys.pidNamespace()
	switch {
	case !perNamespace:
		return nil
	case err != nil:
		return fmt.Errorf("looking for the PID namespace for pid.available: %w", err)
	case namespace != initialPIDNamespace:
		return errPIDNamespace
	}
	return nil
}

// atLeast reports whether a kernel release such as "6.18.44-generic" is of the version or a
// newer one.
func atLeast(release string, major, minor uint) (bool, error) {
	var first, second uint
	if _, err := fmt.Sscanf(release, "%d.%d", &first, &second); err != nil {
		return false, fmt.Errorf("%q is no kernel release", release)
	}
	return first > major || first == major && second >= minor, nil
}

func (p *pidSource) observe(buffer []byte) Observation {
	limit, err := p.limit(buffer)
	if err != nil {
		return unknown(err)
	}
	running, err := kernelfile.Parse(p.loadavg, buffer, kernelfile.Tasks)
	if err != nil {
		return unknown(err)
	}
	return Observation{State: Known, Available: limit - running, Capacity: limit}
}

// limit returns the smallest limit. A kernel may lack one of the files. It is an error when
// both are missing, or when one has no valid content.
func (p *pidSource) limit(buffer []byte) (smallest int64, missing error) {
	for _, file := range p.limits {
		n, err := file.Number(buffer)
		switch {
		case errors.Is(err, os.ErrNotExist):
			missing = err
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("reading %s: the limit is 0", file.Path())
		}
		if smallest == 0 || n < smallest {
			smallest = n
		}
	}
	if smallest > 0 {
		missing = nil
	}
	return smallest, missing
}
