package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/internal/config"
)

// whereFlags say where things are; what to do is in the file.
type whereFlags struct {
	config     string
	nodeName   string
	kubeconfig string
	kubepods   string
	hostRoot   string
}

func (f *whereFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "the configuration file (required)")
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's name in the API; $NODE_NAME when left out")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig; in-cluster credentials when left out")
	flags.StringVar(&f.kubepods, "kubepods-cgroup", "", "the pods' cgroup, relative to the cgroup mount; looked for when left out")
	flags.StringVar(&f.hostRoot, "host-root", "", "a directory below which the host's /proc, /sys/fs/cgroup and /var/lib are mounted")
}

// check refuses what can only be a mistake, before anything is opened.
func (f *whereFlags) check() error {
	var faults []error
	if f.config == "" {
		faults = append(faults, errors.New("--config is missing: name the configuration file"))
	}
	if f.nodeName == "" {
		faults = append(faults, errors.New("--node-name is missing and $NODE_NAME is not set: name the node"))
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{err}
	}
	return nil
}

func (f *whereFlags) load() (*config.EvictdConfiguration, error) {
	loaded, err := config.Load(f.config)
	if err != nil {
		return nil, fmt.Errorf("loading the configuration: %w", err)
	}
	return loaded, nil
}

// host returns a path of the host.
func (f *whereFlags) host(path string) string { return filepath.Join("/", f.hostRoot, path) }

// restConfig returns the credentials: the kubeconfig's, else the pod's own.
func (f *whereFlags) restConfig() (*rest.Config, error) {
	if f.kubeconfig != "" {
		c, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading --kubeconfig %s: %w", f.kubeconfig, err)
		}
		return c, nil
	}
	c, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the in-cluster credentials: %w; outside a cluster name a --kubeconfig", err)
	}
	return c, nil
}
