package main

import (
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/plugin"
	"github.com/evictd/evictd/internal/status"
)

const (
	// pluginFile is the file name by which kubectl finds the plugin for `kubectl evictd`.
	pluginFile = "kubectl-evictd"
	// pluginCompletionFile is the file name by which kubectl finds what completes it.
	pluginCompletionFile = "kubectl_complete-evictd"
)

// commandFor returns the command line of a program with that file name: evictd's, or that of the
// kubectl plugin, which is the same program under another name.
func commandFor(name string, args []string, clientGo func(klog.Logger)) *cobra.Command {
	switch filepath.Base(name) {
	case pluginFile:
		cmd := newKubectlCommand(clientGo)
		cmd.SetArgs(args)
		return cmd
	case pluginCompletionFile:
		cmd := newKubectlCommand(clientGo)
		cmd.SetArgs(append([]string{cobra.ShellCompRequestCmd}, args...))
		return cmd
	default:
		cmd := newRootCommand(clientGo)
		cmd.SetArgs(args)
		return cmd
	}
}

// newKubectlCommand returns the command line of the kubectl plugin.
func newKubectlCommand(clientGo func(klog.Logger)) *cobra.Command {
	var signals []string
	for _, signal := range status.Rankable() {
		signals = append(signals, signal.String())
	}
	cmd := plugin.New(plugin.Options{
		UserAgent: pluginFile + "/" + buildVersion(),
		Exit:      func(code int) error { return exitError{code} },
		Usage:     func(err error) error { return usageError{err} },
		Quiet:     func() { clientGo(klog.Logger{}) },
		Signals:   signals,
	})
	cmd.Use = pluginFile
	cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl evictd"}
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Args, cmd.RunE = cobra.ArbitraryArgs, oneOf
	cmd.SetFlagErrorFunc(flagFault)
	cmd.CompletionOptions.DisableDefaultCmd = true // kubectl completes
	return cmd
}
