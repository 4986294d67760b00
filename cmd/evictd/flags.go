package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/config"
)

// runFlags are the flags of `evictd run`: for locations, as the behavior is configured in the file.
type runFlags struct {
	config, nodeName, kubeconfig, kubepods, hostRoot, kubeletConfig, stateDir string

	dryRun                                      bool
	address, debug, logLevel, logFormat, record string
	recordMaxSize                               resource.QuantityValue
}

// fromEnvironment gives each flag that is left out the value of its variable: --x-y has that of $EVICTD_X_Y, and stays
// left out for the rules about others. It returns what names those variables in an error in place of the flags.
func fromEnvironment(flags *pflag.FlagSet) (words *strings.Replacer, err error) {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		name := "EVICTD_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(name)
		if f.Changed || value == "" || err != nil {
			return
		}
		names = append(names, "--"+f.Name, "$"+name)
		if err = f.Value.Set(value); err != nil {
			err = fmt.Errorf("$%s is %q: %w", name, value, err)
		}
	})
	return strings.NewReplacer(names...), err
}

// add adds the flags that say where things are. The node is to be named, and the configuration where it is needed.
func (f *runFlags) add(cmd *cobra.Command, needsFile bool) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "the configuration file")
	flags.StringVar(&f.nodeName, "node-name", os.Getenv("NODE_NAME"), "the node's name in the API; $NODE_NAME when left out")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "a kubeconfig; when left out $KUBECONFIG, else the pod's credentials, else ~/.kube/config")
	flags.StringVar(&f.kubepods, "kubepods-cgroup", "", "the pods' cgroup, relative to the cgroup mount; looked for when left out")
	flags.StringVar(&f.hostRoot, "host-root", "", "a directory below which the host's /proc, /sys/fs/cgroup and /var/lib are mounted")
	flags.StringVar(&f.kubeletConfig, "kubelet-config", "", "the kubelet's configuration on the host, a file or a directory of drop-ins; looked for when left out")
	flags.StringVar(&f.stateDir, "state-dir", "", "a directory for what should outlive a restart of the container; nothing does when left out")
	cmd.PreRunE = func(*cobra.Command, []string) error { // also where a variable that is not set was passed
		switch {
		case f.nodeName == "":
			return errors.New("name the node by --node-name or $NODE_NAME")
		case f.config == "" && needsFile:
			return errors.New("name the configuration file by --config")
		default:
			return nil
		}
	}
}

func loadConfig(path string) (*config.EvictdConfiguration, error) {
	loaded, err := config.Load(path)
	if err != nil {
		return nil, fmt.Errorf("loading --config %s: %w", path, err)
	}
	return loaded, nil
}

// host returns a path of the host.
func (f *runFlags) host(path string) string { return filepath.Join("/", f.hostRoot, path) }

// notThere adds the fix to a fault that says that a path of the host does not exist.
func (f *runFlags) notThere(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w; check --kubepods-cgroup %q, which is relative to the cgroup mount, and --host-root %q, and that the host's "+
		"/proc, /sys/fs/cgroup, /var/lib/kubelet and the directory of its images are mounted below it", err, f.kubepods, f.hostRoot)
}

// newClients makes the clients for the API server. Purpose is added to the user agent of their requests.
func newClients(f *runFlags, purpose string) (made *apiclient.Clients, err error) {
	base, origin, err := credentials(f.kubeconfig, rest.InClusterConfig)
	if err == nil {
		base.UserAgent = "evictd/" + version + purpose
		made, err = apiclient.New(base)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w; name a file that kubectl can use", origin, err)
	}
	return made, nil
}

// credentials returns those of the kubeconfig that --kubeconfig or $KUBECONFIG names, else those of the pod, else those
// of ~/.kube/config; and what they are read from, for an error. It reads kubeconfigs as kubectl does.
func credentials(named string, ofPod func() (*rest.Config, error)) (c *rest.Config, origin string, err error) {
	var missing, noPod error
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.MigrationRules = named, nil // which would write a file of the user's
	rules.WarnIfAllMissing, rules.Warner = true, func(files error) { missing = files }
	switch origin = "--kubeconfig " + named; {
	case named != "":
	case os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		origin = "$KUBECONFIG"
	default:
		if c, noPod = ofPod(); noPod == nil {
			return c, "the pod's service account", nil
		}
		origin = "~/.kube/config"
	}
	file, err := rules.Load()
	if missing != nil && noPod != nil {
		origin, missing = "the credentials for the API server", fmt.Errorf("--kubeconfig and $KUBECONFIG name no file, there is no "+
			"~/.kube/config, and no service account of a pod (%w), which must not set automountServiceAccountToken to false", noPod)
	}
	if err = cmp.Or(err, missing); err != nil {
		return nil, origin, err
	}
	c, err = clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		err = fmt.Errorf("its current-context %q leads to no server", file.CurrentContext)
	}
	return c, origin, err
}
