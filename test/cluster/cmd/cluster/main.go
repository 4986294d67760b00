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
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/evictd/evictd/test/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// settings are the flags of all commands.
type settings struct {
	dir          string
	bin          string
	name         string
	controlPlane bool
	keepLogs     bool
}

func run(ctx context.Context, arguments []string) error {
	commands := map[string]func(context.Context, settings) error{"up": up, "status": status, "down": down}
	var chosen settings
	flags := flag.NewFlagSet("cluster up|status|down", flag.ExitOnError)
	flags.StringVar(&chosen.dir, "dir", filepath.Join(os.TempDir(), "evictd-cluster"), "state folder: all that the cluster writes")
	bin, _ := cluster.DefaultBinDir() // without one the flag is needed, and Start says so
	flags.StringVar(&chosen.bin, "bin", bin, "folder of binaries")
	flags.StringVar(&chosen.name, "name", cluster.DefaultNodeName, "name of the node")
	flags.BoolVar(&chosen.controlPlane, "control-plane", false, "etcd, API server and controllers alone, without root")
	flags.BoolVar(&chosen.keepLogs, "keep-logs", false, "leave the logs behind when the cluster stops")
	if len(arguments) > 0 {
		_ = flags.Parse(arguments[1:]) // it exits
	}
	if len(arguments) == 0 || commands[arguments[0]] == nil || flags.NArg() > 0 {
		flags.Usage()
		os.Exit(2) //nolint:mnd // as flags.Parse does
	}
	return commands[arguments[0]](ctx, chosen)
}

func up(ctx context.Context, chosen settings) error {
	options := cluster.Options{
		Dir: chosen.dir, BinDir: chosen.bin, Node: !chosen.controlPlane, NodeName: chosen.name, KeepLogs: chosen.keepLogs, Log: os.Stderr,
	}
	if options.Node && os.Geteuid() != 0 {
		return errors.New("starting a node needs root; --control-plane does not")
	}
	if options.Node {
		if err := cluster.InstallPackages(ctx, options); err != nil {
			return err
		}
	}
	begin := time.Now()
	running, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	_, err = fmt.Printf(`The cluster is ready after %s.
  export KUBECONFIG=%s
  %s get all --all-namespaces
Stop it with: cluster down --dir %s
`, time.Since(begin).Round(time.Second/10), running.Kubeconfig(), filepath.Join(chosen.bin, "kubectl"), running.Dir())
	return err
}

func status(_ context.Context, chosen settings) error {
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
		if _, err = fmt.Printf("%-24s %8d  %s\n", each.Name, each.PID, word); err != nil {
			return err
		}
	}
	if ended > 0 || len(processes) == 0 {
		return fmt.Errorf("looking at the processes: %d of %d do not run", ended, len(processes))
	}
	_, err = fmt.Printf("export KUBECONFIG=%s\n", found.Kubeconfig())
	return err
}

func down(ctx context.Context, chosen settings) error {
	found, err := cluster.Attach(chosen.dir)
	if errors.Is(err, cluster.ErrNoCluster) {
		_, err = fmt.Printf("No cluster is in %s.\n", chosen.dir)
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
	begin := time.Now()
	if err = found.Stop(ctx); err != nil {
		return err
	}
	_, err = fmt.Printf("The cluster in %s is gone after %s.\n", chosen.dir, time.Since(begin).Round(time.Second/10))
	return err
}
