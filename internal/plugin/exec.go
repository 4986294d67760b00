package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
)

// inPod runs `evictd COMMAND` in the agent's pod, with the flags of its `evictd run` that say where
// things are, and passes on its output and its exit code.
func (p *plugin) inPod(ctx context.Context, c *cluster, a *agent, out, errs io.Writer, shared []string, command string, args ...string) error {
	all := append([]string{a.binary, command}, args...)
	if len(shared) > 0 {
		all = slices.Concat(all, whereThingsAre(a, shared))
	}
	executor, err := c.executor(a, all)
	if err != nil {
		return err
	}
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: out, Stderr: errs})
	ended, exited := errors.AsType[exec.CodeExitError](err)
	doing := fmt.Sprintf("running evictd %s in pod %s on node %s", command, a.name(), a.node)
	switch {
	case err == nil:
		return nil
	case exited:
		return p.Exit(ended.Code)
	case ctx.Err() != nil:
		return fmt.Errorf("%s: interrupted", doing)
	default:
		return c.explain(doing, err, right{"create", "pods/exec", a.namespace})
	}
}

// executor tries a WebSocket first.
func (c *cluster) executor(a *agent, command []string) (remotecommand.Executor, error) {
	request := c.core.Post().Namespace(a.namespace).Resource("pods").Name(a.pod).SubResource("exec").
		Param("container", a.container).Param("stdout", "true").Param("stderr", "true")
	for _, word := range command {
		request.Param("command", word)
	}
	socket, err := remotecommand.NewWebSocketExecutor(c.config, http.MethodGet, request.URL().String())
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	posted, err := newByPost(c.config)
	if err != nil {
		return nil, err
	}
	streamed, err := remotecommand.NewSPDYExecutorForTransports(posted.transport, posted.upgrader, http.MethodPost, request.URL())
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	return remotecommand.NewFallbackExecutor(socket, streamed, fallsBack)
}

// whereThingsAre returns those of the named flags that the agent runs with, and the node's name.
func whereThingsAre(a *agent, names []string) []string {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	for _, name := range names {
		flags.String(name, "", "")
	}
	_ = flags.Parse(a.args) // what it cannot read it leaves out, and evictd's command says what is missing
	where := []string{"--node-name=" + a.node}
	for _, name := range names {
		if flags.Changed(name) {
			where = append(where, "--"+name+"="+flags.Lookup(name).Value.String())
		}
	}
	return where
}
