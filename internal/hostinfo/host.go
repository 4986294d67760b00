package hostinfo

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v3/host"
)

// Host says which host this is.
type Host struct {
	// Kernel is the kernel's release.
	Kernel string
	// BootID is the kernel's name for this boot: another host and another boot have another.
	BootID string
	// BootTime is when the host was started. The library works it out from the clock and the
	// uptime, so that two readings may differ by a second.
	BootTime time.Time
	// ID is the host's own name for itself across boots: the machine's UUID, which only root may
	// read, else /etc/machine-id. It is "" where neither can be read from here.
	ID string
}

// Host reads which host this is. All but the ID is known, or nothing.
func (r *Reader) Host(ctx context.Context) (Host, error) {
	h, err := ask(ctx, r, r.host, r.readHost)
	if err != nil {
		return Host{}, fmt.Errorf("reading which host this is: %w", err)
	}
	return h, nil
}

func (r *Reader) readHost(ctx context.Context) (Host, error) {
	kernel, err := host.KernelVersionWithContext(ctx)
	if err != nil {
		return Host{}, err
	}
	boot, err := os.ReadFile(r.path("proc/sys/kernel/random/boot_id"))
	if err != nil {
		return Host{}, err
	}
	seconds, err := host.BootTimeWithContext(ctx)
	if err != nil {
		return Host{}, err
	}
	id, err := host.HostIDWithContext(ctx)
	if err != nil {
		return Host{}, err
	}
	h := Host{Kernel: clean(kernel), BootID: clean(strings.TrimSpace(string(boot))), ID: clean(id)}
	switch {
	case h.Kernel == "" || h.BootID == "" || seconds == 0:
		return Host{}, fmt.Errorf("%w: kernel %q, boot %q, started %d seconds after 1970", ErrNoReading, h.Kernel, h.BootID, seconds)
	case seconds > 1<<40: // the clock is behind the uptime
		return Host{}, fmt.Errorf("%w: it was started %d seconds after 1970", ErrNoReading, seconds)
	}
	h.BootTime = time.Unix(int64(seconds), 0)
	if h.ID == strings.ToLower(h.BootID) {
		h.ID = "" // where the library finds no name it gives the boot's
	}
	return h, nil
}
