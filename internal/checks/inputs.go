package checks

import (
	"context"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
)

// Inputs are what the checks look at, as the running evictd would.
type Inputs struct {
	// NodeName is --node-name.
	NodeName string
	// Namespace is evictd's own, which has the ConfigMap that stops it, and in which things are tried that do not
	// exist.
	Namespace string
	// HostRoot is the directory below which the host is mounted; "" is /.
	HostRoot string
	// StateDir is where evictd keeps its state; "" where it keeps none.
	StateDir string
	// File is evictd's configuration; "" where none was named. Refused is why it is invalid, otherwise nil.
	// In both cases the Configuration is the default one.
	File          string
	Refused       error
	Configuration *config.EvictdConfiguration
	// Signals are memory.available and those with a threshold, Sample has their readings, and Directories where
	// the filesystems were looked up.
	Signals     []pressure.Signal
	Sample      pressure.Sample
	Directories map[pressure.Signal]string
	// Disk tries the configured source of the pods' disk use. Unseen says that by the kubelet's Summary API
	// images are on a filesystem that evictd does not see.
	Disk func(context.Context) (unseen bool, err error)
	// API is the API server.
	API API

	// What follows is for the checks that are [Followed].

	// Kubepods is the cgroup of all pods, relative to the cgroup mount, and Pods how many were read there.
	// UnreadPods is why some could not be read, NoPods why the cgroup could not; otherwise nil.
	Kubepods           string
	Pods               int
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
