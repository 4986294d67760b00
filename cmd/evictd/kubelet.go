package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/evictd/evictd/internal/kubeletconfig"
)

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
