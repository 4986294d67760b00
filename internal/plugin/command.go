package plugin

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaultNamespace is the namespace of evictd in the shipped manifest.
const defaultNamespace = "evictd"

// defaultSelector selects evictd's pods in the shipped manifest.
const defaultSelector = "app.kubernetes.io/name=evictd"

// Options are what the program gives the commands. All are required.
type Options struct {
	// UserAgent names the program to the API server.
	UserAgent string
	// Exit returns the error that ends the program with that code and says nothing more.
	Exit func(code int) error
	// Usage returns the error for a mistake in the command line.
	Usage func(error) error
	// Quiet switches off client-go's own log: the commands report each fault themselves.
	Quiet func()
	// Signals are the names of the signals that pods can be ranked for.
	Signals []string
}

// plugin is the commands with the flags that they share.
type plugin struct {
	Options

	access access
}

// New returns the command with its subcommands. The caller names it.
func New(options Options) *cobra.Command {
	p := &plugin{Options: options}
	cmd := &cobra.Command{
		Short: "Ask evictd's agents about their nodes",
		Long:  "Ask evictd's agents about their nodes, with a kubeconfig. It evicts no pod and changes nothing.",
		PersistentPreRun: func(*cobra.Command, []string) {
			p.Quiet()
		},
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&p.access.kubeconfig, "kubeconfig", "", "a kubeconfig; $KUBECONFIG or ~/.kube/config when left out")
	flags.StringVar(&p.access.context, "context", "", "a context of the kubeconfig; its current one when left out")
	flags.StringVarP(&p.access.selector, "selector", "l", defaultSelector, "the labels of evictd's pods")
	cmd.AddCommand(p.newNodesCommand(), p.newRankCommand(), p.newWhyCommand(), p.newDoctorCommand())
	_ = cmd.RegisterFlagCompletionFunc("context", p.completeContexts) // it fails for an unknown flag only
	return cmd
}

// addNamespace adds the flag -n of a command that is about evictd's pods.
func (p *plugin) addNamespace(flags *pflag.FlagSet) {
	flags.StringVarP(&p.access.namespace, "namespace", "n", defaultNamespace, "evictd's namespace")
}

// one accepts one argument, which is the named thing.
func (p *plugin) one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return p.Usage(fmt.Errorf("name one %s, not %d (see %s --help)", what, len(args), cmd.CommandPath()))
	}
}
