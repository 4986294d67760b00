package plugin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// whereDoctorLooks are the flags of `evictd run` that doctor has too.
func whereDoctorLooks() []string {
	return []string{"config", "kubeconfig", "kubepods-cgroup", "host-root", "kubelet-config", "state-dir"}
}

func (p *plugin) newRankCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "rank NODE",
		Short:             "Print which pod of a node would be evicted first now: evictd rank in its agent's pod",
		Args:              p.one("node"),
		ValidArgsFunction: p.completeNodes,
	}
	p.addNamespace(cmd.Flags())
	p.addSignal(cmd)
	f := cmd.Flags()
	f.StringP("output", "o", "", "table, wide, json or yaml; table when left out")
	p.completeWith(cmd, "output", "table", "wide", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.onNode(cmd, args[0], nil, "rank", given(f, "signal", "output")...)
	}
	return cmd
}

func (p *plugin) newDoctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "doctor NODE",
		Short:             "Check what evictd needs on a node: evictd doctor in its agent's pod",
		Args:              p.one("node"),
		ValidArgsFunction: p.completeNodes,
	}
	p.addNamespace(cmd.Flags())
	f := cmd.Flags()
	f.StringP("output", "o", "", "table or json; table when left out")
	p.completeWith(cmd, "output", "table", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.onNode(cmd, args[0], whereDoctorLooks(), "doctor", given(f, "output")...)
	}
	return cmd
}

func (p *plugin) newWhyCommand() *cobra.Command {
	var inNamespace string
	cmd := &cobra.Command{
		Use:               "why [NAMESPACE/]POD",
		Short:             "Explain where a pod stands in the ranking of its node: evictd rank --why in its agent's pod",
		Args:              p.one("pod"),
		ValidArgsFunction: p.completePods,
	}
	p.addSignal(cmd)
	f := cmd.Flags()
	f.StringVarP(&inNamespace, "namespace", "n", "", "the pod's namespace; the context's when left out")
	f.StringVar(&p.access.namespace, "evictd-namespace", defaultNamespace, "evictd's namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, name, err := p.podNamed(inNamespace, args[0])
		if err != nil {
			return err
		}
		c, err := p.open()
		if err != nil {
			return err
		}
		node, err := c.nodeOfPod(cmd.Context(), namespace, name)
		if err != nil {
			return err
		}
		return p.onNode(cmd, node, nil, "rank", append(given(f, "signal"), "--why="+namespace+"/"+name)...)
	}
	return cmd
}

// onNode runs a command in the pod of a node's agent.
func (p *plugin) onNode(cmd *cobra.Command, node string, shared []string, command string, args ...string) error {
	c, err := p.open()
	if err != nil {
		return err
	}
	a, err := c.agentOn(cmd.Context(), node)
	if err != nil {
		return err
	}
	return p.inPod(cmd.Context(), c, a, cmd.OutOrStdout(), cmd.ErrOrStderr(), shared, command, args...)
}

// podNamed returns namespace and name of the pod that the argument names. Namespace is the flag's.
func (p *plugin) podNamed(namespace, argument string) (ofPod, name string, err error) {
	before, after, slash := strings.Cut(argument, "/")
	switch {
	case slash && (before == "" || after == "" || strings.Contains(after, "/")):
		return "", "", p.Usage(fmt.Errorf("pod %q: write POD or NAMESPACE/POD", argument))
	case slash && namespace != "" && namespace != before:
		return "", "", p.Usage(fmt.Errorf("pod %q and --namespace %s name two namespaces: leave one out", argument, namespace))
	case slash:
		return before, after, nil
	case argument == "":
		return "", "", p.Usage(errors.New("the pod's name is empty: write POD or NAMESPACE/POD"))
	}
	inContext, _, err := p.access.loader().Namespace()
	if err != nil {
		return "", "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return cmp.Or(namespace, inContext), argument, nil
}

// addSignal adds the flag --signal.
func (p *plugin) addSignal(cmd *cobra.Command) {
	cmd.Flags().String("signal", "", "the signal to rank for; memory.available when left out")
	p.completeWith(cmd, "signal", p.Signals...)
}

// given returns those of the flags that were given, as arguments: the command in the pod checks them.
func given(flags *pflag.FlagSet, names ...string) []string {
	var args []string
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(names, f.Name) {
			args = append(args, "--"+f.Name+"="+f.Value.String())
		}
	})
	return args
}
