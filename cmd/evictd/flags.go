package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/evictd/evictd/internal/config"
)

// runFlags are the flags of `evictd run`: for locations, as the behavior is configured in the file.
type runFlags struct {
	config, nodeName, kubeconfig, kubepods, hostRoot, kubeletConfig, stateDir string

	dryRun                       bool
	address, logLevel, logFormat string
}

// add adds the flags that say where things are.
func (f *runFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the configuration file (required)")
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's name in the API; $NODE_NAME when left out")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig; in-cluster credentials when left out")
	flags.StringVar(&f.kubepods, "kubepods-cgroup", "", "the pods' cgroup, relative to the cgroup mount; looked for when left out")
	flags.StringVar(&f.hostRoot, "host-root", "", "a directory below which the host's /proc, /sys/fs/cgroup and /var/lib are mounted")
	flags.StringVar(&f.kubeletConfig, "kubelet-config", "", "the kubelet's configuration on the host, a file or a directory of drop-ins; looked for when left out")
	flags.StringVar(&f.stateDir, "state-dir", "", "a directory for what should outlive a restart of the container; nothing does when left out")
	complete(cmd, "node-name")
}

// check rejects obvious mistakes, before anything is opened.
func (f *runFlags) check() error {
	err := f.checkNodeName()
	if f.config == "" {
		err = errors.Join(errors.New("--config is missing: name the configuration file"), err)
	}
	if err != nil {
		return usageError(err)
	}
	return nil
}

func (f *runFlags) checkNodeName() error {
	if f.nodeName == "" {
		return errors.New("--node-name is missing and $NODE_NAME is not set: name the node")
	}
	return nil
}

func (f *runFlags) load() (*config.EvictdConfiguration, error) {
	loaded, err := config.Load(f.config)
	if err != nil {
		return nil, fmt.Errorf("loading --config %s: %w", f.config, err)
	}
	return loaded, nil
}

// host returns a path of the host.
func (f *runFlags) host(path string) string { return filepath.Join("/", f.hostRoot, path) }

// notThere adds the fix to a fault that says that a path of the host does not exist.
func (f *runFlags) notThere(err error) error {
	const mounts = "the host's /proc, /sys/fs/cgroup, /var/lib/kubelet and the directory of its images"
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var missing *fs.PathError
	if f.kubepods != "" && errors.As(err, &missing) && strings.HasPrefix(missing.Path, f.host(cgroupMount)) {
		err = fmt.Errorf("%w; check --kubepods-cgroup %s, which is relative to the cgroup mount", err, f.kubepods)
	}
	if f.hostRoot == "" {
		return fmt.Errorf("%w; in a container, mount %s below one directory and name that by --host-root", err, mounts)
	}
	return fmt.Errorf("%w; check --host-root %s, and that %s are mounted below it", err, f.hostRoot, mounts)
}

// origin says where the credentials come from.
func (f *runFlags) origin() string {
	if f.kubeconfig != "" {
		return "--kubeconfig " + f.kubeconfig
	}
	return "the pod's service account"
}

// restConfig returns the credentials: the kubeconfig's, otherwise the pod's own.
func (f *runFlags) restConfig() (*rest.Config, error) {
	if f.kubeconfig != "" {
		c, err := readKubeconfig(f.kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", f.origin(), err)
		}
		return c, nil
	}
	c, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, errors.New("looking for credentials: evictd does not run in a pod here; name a --kubeconfig")
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w; the pod must not set automountServiceAccountToken to false", f.origin(), err)
	}
	return c, nil
}

// readKubeconfig does what clientcmd.BuildConfigFromFlags does, but never looks elsewhere
// for what the file lacks, and names it: client-go's own text suggests variables that evictd
// does not read.
func readKubeconfig(path string) (*rest.Config, error) {
	file, err := clientcmd.LoadFromFile(path)
	switch {
	case err != nil && runtime.IsNotRegisteredError(err):
		return nil, errors.New("its kind is not Config of apiVersion v1; name a kubeconfig")
	case err != nil:
		return nil, fmt.Errorf("%w; name a kubeconfig that can be read", err)
	}
	if err = checkKubeconfig(file); err != nil {
		return nil, err
	}
	if err = clientcmd.ResolveLocalPaths(file); err != nil {
		return nil, fmt.Errorf("resolving the paths in it: %w", err)
	}
	c, err := clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("%w; fix it so that kubectl can use it", err)
	}
	return c, nil
}

// checkKubeconfig makes sure that the file leads to a server.
func checkKubeconfig(file *clientcmdapi.Config) error {
	if current := file.Contexts[file.CurrentContext]; current != nil {
		if cluster := file.Clusters[current.Cluster]; cluster != nil && cluster.Server != "" {
			return nil
		}
	}
	return fmt.Errorf("its current-context %q leads to no server; name the file that kubectl uses, or set another by kubectl config use-context",
		file.CurrentContext)
}
