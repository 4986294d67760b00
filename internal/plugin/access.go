package plugin

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/evictd/evictd/internal/apiclient"
)

// access says which cluster is asked, and where evictd is in it.
type access struct {
	kubeconfig string // "": as kubectl finds it
	context    string // "": the current one
	namespace  string // evictd's
	selector   string // the labels of evictd's pods
}

// cluster is the API server with the user's credentials.
type cluster struct {
	config *rest.Config
	core   rest.Interface
	access access
}

// loader reads the kubeconfig as kubectl does.
func (a *access) loader() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: a.context})
}

// open returns the cluster. It sends no request.
func (p *plugin) open() (*cluster, error) {
	config, err := p.access.loader().ClientConfig()
	switch {
	case clientcmd.IsEmptyConfig(err):
		return nil, fmt.Errorf("looking for a cluster: there is no kubeconfig; name one by --kubeconfig or $KUBECONFIG")
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.UserAgent = p.UserAgent
	clients, err := apiclient.New(rest.CopyConfig(config), nil)
	if err != nil {
		return nil, fmt.Errorf("using the kubeconfig: %w", err)
	}
	return &cluster{config: config, core: clients.Telling.Core(), access: p.access}, nil
}
