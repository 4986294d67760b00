package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// cgroupMount is where cgroups are mounted on the host.
const cgroupMount = "/sys/fs/cgroup"

// host reads the machine.
type host struct {
	flags    *runFlags
	kubepods string
	tree     *usage.Tree
	sampler  atomic.Pointer[pressure.Node] // the loop's, which a reload replaces; nil in a command
}

// openHost finds the pods' cgroups and prepares to read the signals.
func openHost(flags *runFlags, c *config.EvictdConfiguration) (*host, error) {
	h := &host{flags: flags}
	if err := h.openPods(); err != nil {
		return nil, err
	}
	sampler, err := h.openSampler(c, 0)
	if err != nil {
		return nil, errors.Join(err, h.tree.Close())
	}
	h.sampler.Store(sampler)
	return h, nil
}

// openPods finds and opens the pods' cgroups.
func (h *host) openPods() (err error) {
	mount := h.flags.host(cgroupMount)
	if h.kubepods = h.flags.kubepods; h.kubepods == "" {
		if h.kubepods, err = usage.FindKubepods(mount, self().UID); err != nil {
			return h.flags.notThere(fmt.Errorf("finding the pods' cgroup: %w", err))
		}
	}
	if h.tree, err = usage.Open(mount, h.kubepods); err != nil {
		return h.flags.notThere(fmt.Errorf("opening the pods' cgroup: %w", err))
	}
	return nil
}

// commandWait is how long the sample of a command waits for a filesystem: it holds up no loop.
const commandWait = 10 * time.Second

// openSampler prepares to read signals, by default those with thresholds. Wait is for filesystems; 0 is that of a
// loop.
func (h *host) openSampler(c *config.EvictdConfiguration, wait time.Duration, signals ...pressure.Signal) (*pressure.Node, error) {
	options := pressure.Options{
		HostRoot:        h.flags.hostRoot,
		Kubepods:        h.kubepods,
		MemoryAvailable: c.MemoryDefinition(),
		Signals:         signals,
		FilesystemWait:  wait,
	}
	options.Thresholds, _ = c.Thresholds() // it was validated
	if len(signals) == 0 {
		options.Signals = signalsOf(options.Thresholds)
	}
	if stall := c.MemoryStall; stall != nil {
		options.StallWindow = stall.Window.Duration
		options.StallFull = stall.Type == config.StallFull
	}
	sampler, err := pressure.Open(options)
	if err != nil {
		return nil, h.flags.notThere(fmt.Errorf("preparing to read the node: %w", err))
	}
	return sampler, nil
}

// observe reads one signal, and returns the directory whose filesystem was read, "" for other
// signals. A signal that cannot be prepared is unknown.
func (h *host) observe(c *config.EvictdConfiguration, signal pressure.Signal, now time.Time) (seen pressure.Observation, directory string) {
	sampler, err := h.openSampler(c, commandWait, signal)
	if err != nil {
		return pressure.Observation{State: pressure.Unknown, Err: err}, ""
	}
	defer sampler.Close() //nolint:errcheck // only files that were read
	sample := sampler.Sample(now)
	return sample.Of(signal), sampler.Directory(signal)
}

// dedicatedImageFS reports whether images have their own filesystem, also where no threshold asks for one: the
// pods' disk use may be asked for all the same.
func (h *host) dedicatedImageFS(c *config.EvictdConfiguration) (bool, error) {
	if sampler := h.sampler.Load(); sampler != nil {
		if dedicated, err := sampler.DedicatedImageFS(); !errors.Is(err, pressure.ErrUnasked) {
			return dedicated, err
		}
	}
	sampler, err := h.openSampler(c, 0, pressure.NodeFSAvailable)
	if err != nil {
		return false, err
	}
	defer sampler.Close() //nolint:errcheck // only files that were read
	return sampler.DedicatedImageFS()
}

// read reads signals of memory once, by the given definition. All are unknown where the source of
// one cannot be opened.
func (h *host) read(definition pressure.MemoryDefinition, signals ...pressure.Signal) pressure.Sample {
	now := time.Now()
	node, err := pressure.Open(pressure.Options{
		HostRoot: h.flags.hostRoot, Kubepods: h.kubepods, MemoryAvailable: definition, Signals: signals,
		// The kubelet's measure counts the kernel's per-CPU lists as available, far from a threshold too.
		Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(1)}},
	})
	if err != nil {
		unread := pressure.Sample{Time: now}
		for _, signal := range signals {
			unread.Observations[signal].Err = err
		}
		return unread
	}
	defer node.Close() //nolint:errcheck // only files that were read
	return node.Sample(now)
}

// kubeletGap is the difference of memory.available between the kernel's definition and the
// kubelet's, which is smaller. It is read at most once a second. It is not safe for
// concurrent use.
type kubeletGap struct {
	sample func(pressure.MemoryDefinition, ...pressure.Signal) pressure.Sample
	bytes  int64
	read   time.Time
}

// at returns the gap in bytes; 0 where one of the two cannot be read.
func (g *kubeletGap) at(now time.Time) int64 {
	const fresh = time.Second
	if age := now.Sub(g.read); age >= 0 && age < fresh {
		return g.bytes
	}
	g.bytes, g.read = 0, now
	sample := g.sample(pressure.Kernel, pressure.MemoryAvailable, pressure.KubeletMemoryAvailable)
	ours, theirs := sample.Of(pressure.MemoryAvailable), sample.Of(pressure.KubeletMemoryAvailable)
	if ours.State == pressure.Known && theirs.State == pressure.Known {
		g.bytes = ours.Available - theirs.Available
	}
	return g.bytes
}

func (h *host) close() error { return errors.Join(h.sampler.Load().Close(), h.tree.Close()) }
