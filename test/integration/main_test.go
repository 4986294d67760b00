package integration

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/cluster"
)

// shared is the control plane of all tests, each of which has its own namespace.
var shared *cluster.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	patience, err := cluster.Patience()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "evictd-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	bin := os.Getenv("EVICTD_CLUSTER_BIN")
	if err = cluster.Build(ctx, bin, false, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "building the control plane:", err)
		return 1
	}
	shared, err = cluster.Start(ctx, cluster.Options{Dir: dir, BinDir: bin, Patience: patience, Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := shared.Stop(context.WithoutCancel(ctx)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m.Run()
}

// unlimited returns the administrator's credentials without client-go's own rate limit.
func unlimited() *rest.Config {
	c := rest.CopyConfig(shared.RESTConfig())
	c.QPS = -1
	return c
}

func admin(tb testing.TB) kubernetes.Interface {
	tb.Helper()
	client, err := kubernetes.NewForConfig(unlimited())
	if err != nil {
		tb.Fatal(err)
	}
	return client
}
