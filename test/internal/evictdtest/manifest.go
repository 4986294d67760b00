package evictdtest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Rights are the kinds of the shipped manifest that give evictd's account its rights. The DaemonSet is
// left out: there is no kubelet here, and the tests create its pods.
func Rights() []string {
	return []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
}

// Policies are the kinds of the shipped manifest that confine evictd to its node.
func Policies() []string {
	return []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
}

// ShippedPart returns the documents of the shipped manifest of these kinds, unchanged. The test's folder
// is two levels below the repository's.
func ShippedPart(tb testing.TB, kinds []string) string {
	tb.Helper()
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var part strings.Builder
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return part.String()
		}
		if err != nil {
			tb.Fatal(err)
		}
		var kind struct{ Kind string }
		if err := yaml.Unmarshal(document, &kind); err != nil {
			tb.Fatal(err)
		}
		if slices.Contains(kinds, kind.Kind) {
			part.WriteString("---\n" + string(document))
		}
	}
}
