package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/pkg/pressure"
)

// emptySelectors takes an empty map or list inside a label selector for a missing
// one, which means the same and is what is written.
func emptySelectors() cmp.Option {
	return cmp.Transformer("selector", func(s metav1.LabelSelector) string { return metav1.FormatLabelSelector(&s) })
}

// TestDefaultsGolden: the defaults as a file, and in its comments what they mean.
func TestDefaultsGolden(t *testing.T) {
	t.Parallel()
	written, err := yaml.Marshal(Default())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), mustParse(t, string(written))); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	file := string(written) + strings.Join(prefixed("# threshold: ", inForce(t, Default())), "\n") + fmt.Sprintf("\n# rules: %+v\n", Default().Rules())
	golden.Compare(t, "testdata/defaults.yaml", file, os.Getenv("UPDATE_GOLDEN") == "1", "UPDATE_GOLDEN=1")
}

// TestDefaultIsNew: a caller cannot change the next caller's defaults.
func TestDefaultIsNew(t *testing.T) {
	t.Parallel()
	Default().EvictionHard["memory.available"] = "90%"
	Default().Protect.Namespaces[0] = "default"
	if got := Default(); got.EvictionHard["memory.available"] != "5%" || got.Protect.Namespaces[0] != "kube-system" {
		t.Error("Default gives out shared maps")
	}
}

// TestDefaultsActBeforeTheKubelet holds the promise of the defaults against the
// kubelet's, DefaultEvictionHard in pkg/kubelet/eviction/defaults_linux.go.
func TestDefaultsActBeforeTheKubelet(t *testing.T) {
	t.Parallel()
	hard := map[pressure.Signal]pressure.Quantity{}
	for _, ours := range Default().Thresholds() {
		if ours.Hard {
			hard[ours.Signal] = ours.Quantity
		}
	}
	for _, theirs := range mustParse(t, head+"evictionHard: {memory.available: 100Mi, nodefs.available: 10%, "+
		"nodefs.inodesFree: 5%, imagefs.available: 15%, imagefs.inodesFree: 5%}").Thresholds() {
		if a, b := hard[theirs.Signal].Of(16<<30), theirs.Quantity.Of(16<<30); a <= b {
			t.Errorf("%s: %d is not ahead of the kubelet's %d", theirs.Signal, a, b)
		}
	}
}

// A file that does not say whether evictd acts evicted pods.
func TestFaultFileWithoutDryRunActs(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"": true, "dryRun:": true, "dryRun: true": true, "dryRun: false": false} {
		if c := mustParse(t, head+file+"\n"); c.DryRun != want {
			t.Errorf("%q: dry run %v, want %v", file, c.DryRun, want)
		}
	}
}
