package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/evictd/evictd/test/chart"
	"github.com/evictd/evictd/test/cluster"
)

// started is the control plane of the tests.
var started *cluster.Cluster

func TestMain(m *testing.M) {
	code := 1
	err := os.Chdir("..") // the paths of the package chart are those of its folder
	if err == nil {
		err = cluster.With(context.Background(), "chart", func(c *cluster.Cluster, _ string) error {
			started = c
			code = m.Run()
			return nil
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
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
