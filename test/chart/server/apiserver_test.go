package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/evictd/evictd/test/chart"
	"github.com/evictd/evictd/test/cluster"
)

// started is the control plane of the tests.
var started *cluster.Cluster

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err = os.Chdir(".."); err != nil { // the paths of the package chart are those of its folder
		return 1, err
	}
	dir, err := os.MkdirTemp("", "evictd-chart-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	started, err = cluster.Start(context.Background(), cluster.Options{
		Dir: filepath.Join(dir, "cluster"), BinDir: os.Getenv("EVICTD_CLUSTER_BIN"), Log: os.Stderr,
	})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, started.Stop(context.Background())
}

// apply applies objects on the server, as Helm does. Unknown fields are errors of the server: kubectl does not look.
func apply(t *testing.T, all chart.Objects, more ...string) error {
	t.Helper()
	if len(all) == 0 {
		return nil
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": slices.Collect(maps.Values(all))})
	if err != nil {
		t.Fatal(err)
	}
	_, err = started.Kubectl(t.Context(), string(list), append([]string{"apply", "--server-side", "--validate=false", "--force-conflicts", "--field-manager=helm", "-f", "-"}, more...)...)
	return err
}

// namespace makes one.
func namespace(t *testing.T, name string) {
	t.Helper()
	if _, err := started.Kubectl(t.Context(), "", "create", "namespace", name); err != nil {
		t.Fatal(err)
	}
}
