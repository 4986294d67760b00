package main

import (
	"errors"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/doctor"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/kernelfile"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
	"github.com/evictd/evictd/pkg/usage"
)

// seenHost is what `evictd doctor` has read of the node.
type seenHost struct {
	flags      *doctorFlags
	loaded     *config.EvictdConfiguration
	thresholds []pressure.Threshold
	node       *host
	pods       doctor.Pods
	podsFault  error // why the pods' cgroups are not known
	readings   [pressure.SignalCount]doctor.Reading
	sample     pressure.Sample // the same readings
}

// seeHost reads the node once. A thing that cannot be read keeps nothing else from being read.
func (f *doctorFlags) seeHost(c *config.EvictdConfiguration) *seenHost {
	seen := &seenHost{flags: f, loaded: c, node: &host{flags: &f.whereFlags}}
	seen.thresholds, _ = c.Thresholds() // it was validated
	seen.lookForPods()
	now := time.Now()
	seen.sample.Time = now
	for _, signal := range append(signalsOf(seen.thresholds), pressure.MemoryAvailable) {
		reading := &seen.readings[signal]
		reading.Observation, reading.Directory = seen.node.observe(c, signal, now)
		seen.sample.Observations[signal] = reading.Observation
	}
	if c.MemoryDefinition() == pressure.Kernel {
		seen.readings[pressure.MemoryAvailable].Lacks = reclaimableARC(f.hostRoot)
	}
	return seen
}

// reclaimableARC says how much of its cache ZFS can give back; "" is none.
func reclaimableARC(hostRoot string) string {
	switch bytes, err := hostinfo.ReclaimableARC(hostRoot); {
	case err != nil:
		return err.Error()
	case bytes > 0:
		return "the cache of ZFS (ARC) can give back " + rank.Bytes(bytes) + ", which MemAvailable does not count"
	default:
		return ""
	}
}

func (s *seenHost) lookForPods() {
	if s.podsFault = s.node.openPods(); s.podsFault != nil {
		return
	}
	defer s.node.tree.Close() //nolint:errcheck // only files that were read
	pods, err := s.node.tree.Collect(nil)
	s.pods = doctor.Pods{Group: s.node.kubepods, Count: len(pods), Unread: err}
	if _, some := errors.AsType[*usage.UnreadError](err); err != nil && !some {
		s.podsFault = err
	}
}

// host returns it for the checks.
func (s *seenHost) host() doctor.Host {
	h := doctor.Host{
		Cgroups:     func() (kernelfile.Hierarchy, error) { return kernelfile.HierarchyOf(s.flags.host(cgroupMount)) },
		Kubepods:    func() (doctor.Pods, error) { return s.pods, s.podsFault },
		Signal:      func(signal pressure.Signal) doctor.Reading { return s.readings[signal] },
		WakeUps:     s.wakeUps,
		Kubelet:     s.kubelet,
		StateDir:    s.flags.stateDir,
		TryStateDir: state.Try,
	}
	if s.loaded.Disk.Source == config.DiskNode {
		h.PodFiles = func() error { return checkDisk(s.flags.hostRoot, s.loaded) }
	}
	return h
}

func (s *seenHost) wakeUps() []pressure.WakeState {
	wakers := s.node.openWakers()
	defer wakers.Close() //nolint:errcheck // triggers end with the process
	return wakers.States()
}

func (s *seenHost) kubelet() doctor.Kubelet {
	read, err := s.flags.readKubelet()
	if err != nil {
		return doctor.Kubelet{Named: s.flags.kubeletConfig != "", Err: err}
	}
	return doctor.Kubelet{
		Files: read.Files, Unread: read.Unread,
		Compared: s.node.compareThresholds(s.loaded, s.thresholds, read, &s.sample, s.dedicatedImageFS),
	}
}

func (s *seenHost) dedicatedImageFS() (bool, error) { return s.node.dedicatedImageFSNow(s.loaded) }
