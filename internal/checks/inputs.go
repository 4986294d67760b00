package checks

import (
	"context"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

// Inputs are what the checks look at, as the running evictd would.
type Inputs struct {
	// NodeName is --node-name.
	NodeName string
	// Now is this machine's clock.
	Now func() time.Time
	// Namespace is evictd's own, or one in which things are tried that do not exist. StopNamespace has the
	// ConfigMap that stops evictd.
	Namespace, StopNamespace string
	// HostRoot is the directory below which the host is mounted; "" is /.
	HostRoot string
	// StateDir is where evictd keeps its state; "" where it keeps none.
	StateDir string
	// File is evictd's configuration; "" where none was named. Refused is why it is invalid, otherwise nil.
	// In both cases the Configuration is the default one.
	File          string
	Refused       error
	Configuration *config.EvictdConfiguration
	// Warnings are its valid settings that are probably mistakes, one sentence each.
	Warnings []string
	// Readings are those of memory.available and of each signal with a threshold.
	Readings []Reading
	// Memory reads the machine's memory, of which only the capacity counts.
	Memory func() pressure.Observation
	// PodFiles tries to read the pods' files, and Summary the kubelet's Summary API. Only the configured
	// source of the pods' disk use is tried. Unseen says that by the Summary images are on a filesystem
	// that evictd does not see.
	PodFiles func() error
	Summary  func(context.Context) (unseen bool, err error)
	// API is the API server.
	API API
	// Followed is what a running evictd follows and reports itself. Nil is such an evictd: these checks are
	// left out, and the policies are tried and never read.
	Followed *Followed
}

// Followed is what has been read of the node once.
type Followed struct {
	// Kubepods is the cgroup of all pods, relative to the cgroup mount, and Pods how many were read there.
	Kubepods string
	Pods     int
	// UnreadPods is why some of them could not be read, NoPods why none could; otherwise nil.
	UnreadPods, NoPods error
	// Wakes says what became of the kernel's wake-ups.
	Wakes []pressure.WakeState
	// Kubelet is the kubelet's configuration, Compared the comparison with it. NoKubelet is why it is not
	// known, otherwise nil; KubeletNamed says that --kubelet-config names it.
	Kubelet      *kubeletconfig.Configuration
	Compared     []kubeletconfig.Finding
	NoKubelet    error
	KubeletNamed bool
}

// Reading is one reading of a signal.
type Reading struct {
	pressure.Observation

	// Signal is what was read.
	Signal pressure.Signal
	// Directory is where the filesystem was looked up; "" for other signals.
	Directory string
}
