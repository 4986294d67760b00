// Command cluster runs the test cluster by hand, from the binaries of make node-build, until it is interrupted:
//
//	cluster [--control-plane] [--dir DIR]
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
	options := cluster.Options{Log: os.Stderr, BinDir: "../../bin/cluster"}
	flag.StringVar(&options.Dir, "dir", filepath.Join(os.TempDir(), "evictd-cluster"), "folder of all that the cluster writes")
	controlPlane := flag.Bool("control-plane", false, "etcd, API server and controllers alone, without root")
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
	begin := time.Now()
	running, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	_, err = fmt.Printf(`The cluster is ready after %s, and stops with this program.
  export KUBECONFIG=%s
  ../../bin/cluster/kubectl get all --all-namespaces
`, time.Since(begin).Round(time.Second/10), running.Kubeconfig())
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
}
