// Package evictdtest has what the tests of evictd against a real API server share: the control plane,
// a part of it for each test, a node's files, its kubelet, evictd as a process, and a proxy that fails.
package evictdtest

import (
	"context"
	"fmt"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/cluster"
)

// shared is the control plane of all tests of a program, each of which has its own namespace.
var shared *cluster.Cluster //nolint:gochecknoglobals // of the program, set by Main

// Main starts the control plane, runs the tests and returns the exit code.
func Main(m *testing.M) (code int) {
	err := cluster.With(context.Background(), "test", func(c *cluster.Cluster, _ string) error {
		shared = c
		code = m.Run()
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Cluster returns the control plane of all tests.
func Cluster() *cluster.Cluster { return shared }

// Unlimited returns the administrator's credentials without client-go's own rate limit.
func Unlimited() *rest.Config { return shared.RESTConfig() }

// Client returns a client with those credentials.
func Client(tb testing.TB, config *rest.Config) kubernetes.Interface {
	tb.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(tb, err)
	return client
}

// must fails the test on an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
