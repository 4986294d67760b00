package pressure

import (
	"errors"
	"fmt"
	"os"

	"github.com/evictd/evictd/internal/kernelfile"
)

// pidSource reads pid.available as the kubelet does (pkg/kubelet/stats/pidlimit):
// the smaller of two limits minus the tasks that exist.
type pidSource struct {
	loadavg *kernelFile
	limits  []*kernelFile
}

// initialPIDNamespace is what /proc/self/ns/pid shows in the host's PID namespace
// (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialPIDNamespace = "pid:[4026531836]"

// errPIDNamespace: since Linux 6.14 the kernel keeps pid_max for each PID namespace, and a
// process reads the one of its own namespace, whichever /proc it uses.
var errPIDNamespace = errors.New(
	"preparing pid.available: since Linux 6.14 the node's pid_max can only be read in the host's PID namespace; give the pod hostPID: true or remove the threshold")

func (n *Node) openPIDs(sys system) error {
	if !n.wants(PIDAvailable) {
		return nil
	}
	n.pids = &pidSource{loadavg: newKernelFile(n.options.host("/proc/loadavg"), numberMax)}
	for _, name := range []string{"pid_max", "threads-max"} {
		n.pids.limits = append(n.pids.limits, newKernelFile(n.options.host("/proc/sys/kernel/"+name), numberMax))
	}
	if _, _, err := n.pids.read(); err != nil {
		return fmt.Errorf("preparing %s: %w", PIDAvailable, err)
	}
	// A limit that cannot be read from this namespace never will be, and a signal that stays
	// unknown would block every eviction. Failing at startup is better.
	return pidMaxVisible(sys)
}

// pidMaxVisible returns nil when the node's pid_max can be read from here.
func pidMaxVisible(sys system) error {
	release, err := sys.release()
	if err != nil {
		return fmt.Errorf("reading the kernel's release for pid.available: %w", err)
	}
	perNamespace, err := atLeast(release, 6, 14)
	if err != nil {
		return fmt.Errorf("reading the kernel's release for pid.available: %w", err)
	}
	if !perNamespace {
		return nil
	}
	namespace, err := sys.pidNamespace()
	switch {
	case err != nil:
		return fmt.Errorf("looking for the PID namespace for pid.available: %w", err)
	case namespace != initialPIDNamespace:
		return errPIDNamespace
	}
	return nil
}

// atLeast reports whether a kernel release such as "6.18.44-generic" is of the version or a
// newer one.
func atLeast(release string, major, minor int64) (bool, error) {
	first, rest, err := kernelfile.LeadingNumber([]byte(release))
	if err != nil || len(rest) == 0 || rest[0] != '.' {
		return false, fmt.Errorf("%q is no kernel release", release)
	}
	second, _, err := kernelfile.LeadingNumber(rest[1:])
	if err != nil {
		return false, fmt.Errorf("%q is no kernel release", release)
	}
	return first > major || first == major && second >= minor, nil
}

func (p *pidSource) observe() Observation {
	limit, running, err := p.read()
	if err != nil {
		return unknown(err)
	}
	return Observation{State: Known, Available: limit - running, Capacity: limit}
}

func (p *pidSource) read() (limit, running int64, err error) {
	if limit, err = p.limit(); err != nil {
		return 0, 0, err
	}
	content, err := p.loadavg.read()
	if err != nil {
		return 0, 0, err
	}
	if running, err = parseLoadavg(content); err != nil {
		return 0, 0, fmt.Errorf("reading %s: %w", p.loadavg.Path(), err)
	}
	return limit, running, nil
}

// limit returns the smallest limit. A kernel may lack one of the files. It is an error when
// both are missing, or when one has no valid content.
func (p *pidSource) limit() (int64, error) {
	var smallest int64
	var missing error
	for _, f := range p.limits {
		n, err := f.number()
		switch {
		case errors.Is(err, os.ErrNotExist):
			missing = err
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, fmt.Errorf("reading %s: the limit is 0", f.Path())
		}
		if smallest == 0 || n < smallest {
			smallest = n
		}
	}
	if smallest == 0 {
		return 0, missing
	}
	return smallest, nil
}

func (p *pidSource) close() {
	p.loadavg.Close()
	for _, f := range p.limits {
		f.Close()
	}
}
