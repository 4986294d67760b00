// Command cluster runs the test cluster by hand, from the binaries of make node-build, until it is interrupted:
//
//	cluster [--control-plane] [--dir DIR] [--bin DIR] [--name NODE] [--keep-logs]
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
	options := cluster.Options{Log: os.Stderr}
	flag.StringVar(&options.Dir, "dir", filepath.Join(os.TempDir(), "evictd-cluster"), "folder of all that the cluster writes")
	bin, _ := cluster.DefaultBinDir() // without one the flag is needed, and Start says so
	flag.StringVar(&options.BinDir, "bin", bin, "folder of binaries")
	flag.StringVar(&options.NodeName, "name", cluster.DefaultNodeName, "name of the node")
	controlPlane := flag.Bool("control-plane", false, "etcd, API server and controllers alone, without root")
	flag.BoolVar(&options.KeepLogs, "keep-logs", false, "leave the logs behind when the cluster stops")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2) //nolint:mnd // as flag.Parse does
	}
	options.Node = !*controlPlane
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options cluster.Options) error {
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
	_, err = fmt.Printf(`The cluster is ready after %s, and stops with this program.
  export KUBECONFIG=%s
  %s get all --all-namespaces
`, time.Since(begin).Round(time.Second/10), running.Kubeconfig(), filepath.Join(options.BinDir, "kubectl"))
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
}
