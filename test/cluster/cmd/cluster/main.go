// Command cluster runs the test cluster by hand, from the binaries of make node-build, until it is interrupted:
//
//	cluster [--control-plane] [--bin DIR] [--dir DIR] [--image FILE]
//
// SIGHUP restarts the kubelet, by what its file in the folder says then. It exits with 0 when all is well, 1 on a fault and
// 2 on wrong usage.
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
	// An edit of a ConfigMap then reaches a pod in seconds; the default is a minute.
	options := cluster.Options{Log: os.Stderr, Kubelet: map[string]any{"syncFrequency": "3s"}}
	flag.StringVar(&options.BinDir, "bin", "../../bin/cluster", "folder of the binaries")
	image := flag.String("image", "", "docker-archive to import into the node")
	flag.StringVar(&options.Dir, "dir", filepath.Join(os.TempDir(), "evictd-cluster"), "folder of all that the cluster writes")
	controlPlane := flag.Bool("control-plane", false, "etcd, API server and controllers alone, without root")
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2) //nolint:mnd // as flag.Parse does
	}
	options.Node = !*controlPlane
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options, *image)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options cluster.Options, image string) (err error) {
	begin := time.Now()
	restart := make(chan os.Signal, 1)
	signal.Notify(restart, syscall.SIGHUP)
	running, err := cluster.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Stop(context.WithoutCancel(ctx))) }()
	if image != "" {
		err = running.ImportImage(ctx, image)
	}
	if err == nil {
		_, err = fmt.Printf(`The cluster is ready after %s, and stops with this program.
  export KUBECONFIG=%s
  %s/kubectl get all --all-namespaces
`, time.Since(begin).Round(time.Second/10), running.Kubeconfig(), options.BinDir)
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-restart:
			err = running.SetKubelet(ctx, nil)
		}
	}
	return err
}
