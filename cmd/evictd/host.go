package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/kubeletconfig"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// host reads the machine.
type host struct {
	flags    *runFlags
	kubepods string
	tree     *usage.Tree
}

// openPods finds and opens the pods' cgroups.
func (h *host) openPods() (err error) {
	mount := h.flags.host("/sys/fs/cgroup")
	if h.kubepods = h.flags.kubepods; h.kubepods == "" {
		if h.kubepods, err = usage.FindKubepods(mount, os.Getenv("POD_UID")); err != nil {
			return h.flags.notThere(fmt.Errorf("finding the pods' cgroup: %w", err))
		}
	}
	if h.tree, err = usage.Open(mount, h.kubepods); err != nil {
		return h.flags.notThere(fmt.Errorf("opening the pods' cgroup: %w", err))
	}
	return nil
}

// openSampler prepares to read signals, by default those with thresholds. Wait is for filesystems; 0 is that of a
// loop.
func (h *host) openSampler(c *config.EvictdConfiguration, wait time.Duration, signals ...pressure.Signal) (*pressure.Node, error) {
	options := pressure.Options{
		HostRoot:        h.flags.hostRoot,
		Kubepods:        h.kubepods,
		MemoryAvailable: c.MemoryAvailable,
		Signals:         signals,
		Thresholds:      c.Thresholds(),
		FilesystemWait:  wait,
	}
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

// kubeletGap returns a function for the difference of memory.available between the kernel's definition and the
// kubelet's, which is smaller, in bytes; 0 where one of the two cannot be read. It reads them at most once a second.
// It is not safe for concurrent use.
func (h *host) kubeletGap() func(now time.Time) int64 {
	var bytes int64
	var last time.Time
	var node *pressure.Node // nil until it could be opened
	return func(now time.Time) int64 {
		if age := now.Sub(last); age >= 0 && age < time.Second {
			return bytes
		}
		bytes, last = 0, now
		if node == nil {
			opened, err := pressure.Open(pressure.Options{
				HostRoot: h.flags.hostRoot, Signals: []pressure.Signal{pressure.MemoryAvailable, pressure.KubeletMemoryAvailable},
				// The kubelet's measure counts the kernel's per-CPU lists as available, far from a threshold too.
				Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Fraction(1)}},
			})
			if err != nil {
				return 0
			}
			node = opened
		}
		sample := node.Sample(now)
		ours, theirs := sample.Of(pressure.MemoryAvailable), sample.Of(pressure.KubeletMemoryAvailable)
		if ours.State == pressure.Known && theirs.State == pressure.Known {
			bytes = ours.Available - theirs.Available
		}
		return bytes
	}
}

// signalsOf returns the signals of the thresholds, in their order.
func signalsOf(thresholds []pressure.Threshold) []pressure.Signal {
	return slices.DeleteFunc(pressure.Signals(), func(signal pressure.Signal) bool {
		return !slices.ContainsFunc(thresholds, func(t pressure.Threshold) bool { return t.Signal == signal })
	})
}

// kubeletConfigPlaces returns where kubelets have their configuration, files and then directories
// of drop-ins, the most common path first.
func kubeletConfigPlaces() []string {
	return []string{
		"/var/lib/kubelet/config.yaml",                   // kubeadm, kind, minikube
		"/etc/kubernetes/kubelet/config.json",            // EKS, Amazon Linux 2023; with config.json.d
		"/etc/kubernetes/kubelet/kubelet-config.json",    // EKS, Amazon Linux 2
		"/etc/kubernetes/kubelet/config",                 // Bottlerocket
		"/home/kubernetes/kubelet-config.yaml",           // GKE
		"/etc/default/kubeletconfig.json",                // AKS
		"/etc/kubernetes/kubelet.conf",                   // OpenShift; a kubeconfig elsewhere
		"/etc/kubernetes/kubelet.yaml",                   // Talos
		"/etc/kubernetes/kubelet-config.yaml",            // kubespray
		"/var/lib/k0s/kubelet-config.yaml",               // k0s
		"/var/lib/rancher/k3s/agent/etc/kubelet.conf.d",  // k3s
		"/var/lib/rancher/rke2/agent/etc/kubelet.conf.d", // RKE2
		"/etc/openshift/kubelet.conf.d",                  // OpenShift, beside its file
		"/etc/kubernetes/kubelet.conf.d",                 // that of Kubernetes' documentation
	}
}

// readKubelet returns the kubelet's configuration. Unless --kubelet-config names its place, it is
// the first that is known, and whatever else is in one of these places is named as not read.
func (f *runFlags) readKubelet() (*kubeletconfig.Configuration, error) {
	if f.kubeletConfig != "" {
		return kubeletconfig.Read(f.host(f.kubeletConfig))
	}
	var first *kubeletconfig.Configuration
	var unread []string
	for _, path := range kubeletConfigPlaces() {
		switch read, err := kubeletconfig.Read(f.host(path)); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			unread = append(unread, err.Error())
		case first == nil:
			first = read
		default:
			unread = append(unread, strings.Join(read.Files, ", ")+" is there too and not read")
		}
	}
	switch {
	case first != nil:
		first.Unread = append(first.Unread, unread...)
		return first, nil
	case len(unread) > 0:
		return nil, errors.New(strings.Join(unread, "; "))
	default:
		return nil, fmt.Errorf("none of %s is there", strings.Join(kubeletConfigPlaces(), ", "))
	}
}
