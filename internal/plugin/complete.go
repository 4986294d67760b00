package plugin

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTimeout bounds what a key press may wait for.
const completionTimeout = 3 * time.Second

// completeWith has a flag completed with these values.
func (p *plugin) completeWith(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // it fails for an unknown flag only
}

// completeNodes completes the nodes that have an agent.
func (p *plugin) completeNodes(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return p.complete(cmd, args, typed, func(ctx context.Context, c *cluster) ([]string, error) {
		agents, err := c.agents(ctx, "")
		var names []string
		for i := range agents {
			names = append(names, agents[i].node)
		}
		return names, err
	})
}

// completePods completes the pods of the namespace that is typed, named by the flag or the context's.
func (p *plugin) completePods(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return p.complete(cmd, args, typed, func(ctx context.Context, c *cluster) ([]string, error) {
		namespace, _, slash := strings.Cut(typed, "/")
		before := namespace + "/"
		if !slash {
			var err error
			if namespace, _, err = p.podNamed(cmd.Flag("namespace").Value.String(), "any"); err != nil {
				return nil, err
			}
			before = ""
		}
		pods, err := c.listPods(ctx, namespace, "", "")
		var names []string
		for i := range pods {
			names = append(names, before+pods[i].Name)
		}
		return names, err
	})
}

// complete completes the one argument of a command. A fault completes nothing: the command itself
// reports it.
func (p *plugin) complete(cmd *cobra.Command, args []string, typed string, names func(context.Context, *cluster) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	const nothingElse = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, nothingElse
	}
	p.Quiet()
	c, err := p.open()
	if err != nil {
		return nil, nothingElse
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	all, err := names(ctx, c)
	if err != nil {
		return nil, nothingElse
	}
	return slices.DeleteFunc(all, func(name string) bool { return !strings.HasPrefix(name, typed) }), nothingElse
}

// completeContexts completes the contexts of the kubeconfig.
func (p *plugin) completeContexts(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	file, err := p.access.loader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for name := range file.Contexts {
		if strings.HasPrefix(name, typed) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
