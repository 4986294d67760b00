package evictdtest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
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
	must(tb, err)
	var part strings.Builder
	kind := regexp.MustCompile(`(?m)^kind: (\w+)$`)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		if of := kind.FindStringSubmatch(document); of != nil && slices.Contains(kinds, of[1]) {
			part.WriteString("---\n" + document + "\n")
		}
	}
	return part.String()
}
