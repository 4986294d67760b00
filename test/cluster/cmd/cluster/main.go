// Command cluster starts and stops the test cluster by hand, from the binaries of make node-build:
//
//	cluster up    [--control-plane] [--dir DIR] [--bin DIR] [--name NODE] [--keep-logs]
//	cluster status [--dir DIR]
//	cluster down  [--dir DIR] [--keep-logs]
//
// It exits with 0 when all is well, 1 on a fault and 2 on wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/cluster"
)

const (
	exitFault = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are the flags of all commands.
type settings struct {
	dir          string
	bin          string
	name         string
	controlPlane bool
	keepLogs     bool
}

// errUsage has already been explained.
var errUsage = errors.New("wrong usage")

func run(ctx context.Context, arguments []string, out, log io.Writer) int {
	err := dispatch(ctx, arguments, out, log)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		return exitUsage
	default:
		_, _ = fmt.Fprintf(log, "cluster: %v\n", err)
		return exitFault
	}
}

func dispatch(ctx context.Context, arguments []string, out, log io.Writer) error {
	commands := map[string]func(context.Context, settings, io.Writer, io.Writer) error{
		"up": up, "status": status, "down": down,
	}
	if len(arguments) == 0 || commands[arguments[0]] == nil {
		_, _ = fmt.Fprintln(log, "usage: cluster up|status|down [flags]; cluster COMMAND --help lists the flags")
		return errUsage
	}
	var chosen settings
	flags := flag.NewFlagSet("cluster "+arguments[0], flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&chosen.dir, "dir", filepath.Join(os.TempDir(), "evictd-cluster"), "state folder: all that the cluster writes")
	flags.StringVar(&chosen.bin, "bin", "", "folder of binaries (default bin/cluster in this repository)")
	flags.StringVar(&chosen.name, "name", cluster.DefaultNodeName, "name of the node")
	flags.BoolVar(&chosen.controlPlane, "control-plane", false, "etcd, API server and controllers alone, without root")
	flags.BoolVar(&chosen.keepLogs, "keep-logs", false, "leave the logs behind when the cluster stops")
	err := flags.Parse(arguments[1:])
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err != nil {
		return errUsage
	}
	if flags.NArg() > 0 {
		_, _ = fmt.Fprintf(log, "cluster %s: unexpected argument %q\n", arguments[0], flags.Arg(0))
		return errUsage
	}
	return commands[arguments[0]](ctx, chosen, out, log)
}

func up(ctx context.Context, chosen settings, out, log io.Writer) error {
	bin, err := binDir(chosen)
	if err != nil {
		return err
	}
	options := cluster.Options{
		Dir: chosen.dir, BinDir: bin, Node: !chosen.controlPlane, NodeName: chosen.name, KeepLogs: chosen.keepLogs, Log: log,
	}
	if options.Node && os.Geteuid() != 0 {
		return errors.New("starting a node needs root; --control-plane does not")
	}
	if options.Node {
		if err = cluster.InstallPackages(ctx, options); err != nil {
			return err
		}
	}
	elapsed := stopwatch()
	running, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, `The cluster is ready after %s.
  export KUBECONFIG=%s
  %s get all --all-namespaces
Stop it with: cluster down --dir %s
`, elapsed(), running.Kubeconfig(), filepath.Join(bin, "kubectl"), running.Dir())
	return err
}

// stopwatch returns a function that returns the time since the call of stopwatch.
func stopwatch() func() time.Duration {
	begin := time.Now()
	return func() time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }
}

func binDir(chosen settings) (string, error) {
	if chosen.bin != "" {
		return filepath.Abs(chosen.bin)
	}
	return cluster.DefaultBinDir()
}

func status(_ context.Context, chosen settings, out, _ io.Writer) error {
	found, err := cluster.Attach(chosen.dir)
	if err != nil {
		return err
	}
	processes, err := found.Status()
	if err != nil {
		return err
	}
	ended := 0
	for _, each := range processes {
		word := "running"
		if !each.Running {
			word = "ended"
			ended++
		}
		if _, err = fmt.Fprintf(out, "%-24s %8d  %s\n", each.Name, each.PID, word); err != nil {
			return err
		}
	}
	if ended > 0 || len(processes) == 0 {
		return fmt.Errorf("looking at the processes: %d of %d do not run", ended, len(processes))
	}
	_, err = fmt.Fprintf(out, "export KUBECONFIG=%s\n", found.Kubeconfig())
	return err
}

func down(ctx context.Context, chosen settings, out, _ io.Writer) error {
	found, err := cluster.Attach(chosen.dir)
	if errors.Is(err, cluster.ErrNoCluster) {
		_, err = fmt.Fprintf(out, "No cluster is in %s.\n", chosen.dir)
		return err
	}
	if err != nil {
		return err
	}
	if chosen.keepLogs {
		if err = found.KeepLogs(); err != nil {
			return err
		}
	}
	elapsed := stopwatch()
	if err = found.Stop(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The cluster in %s is gone after %s.\n", chosen.dir, elapsed())
	return err
}
