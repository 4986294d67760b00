package api

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// A user who may write a pod cannot make a running pod look like a static pod's mirror. The
// protection of mirror pods relies on the API server to reject the one annotation that
// counts. The API server accepts every other property of a mirror, so these do not count
// (internal/nodepods, TestNothingProtectedIsACandidate).
func TestRunningPodCannotBeMadeAMirror(t *testing.T) {
	t.Parallel()
	w := evictdtest.NewWorld(t)
	w.Pod("web", 100)
	node, err := w.Client.CoreV1().Nodes().Get(t.Context(), w.Node, metav1.GetOptions{})
	w.Must(err)
	patch := func(format string, arguments ...any) (string, error) {
		text := fmt.Sprintf(`{"metadata": `+format+`}`, arguments...)
		return evictdtest.Cluster().Kubectl(t.Context(), "", "-n", w.Namespace, "patch", "pod", "web", "-o", "yaml", "--patch", text)
	}
	_, err = patch(`{"annotations": {"kubernetes.io/config.mirror": "forged"}}`)
	if err == nil || !strings.Contains(err.Error(), "may not add mirror pod annotation") {
		t.Errorf("adding the mirror annotation to a pod that is there: %v, want it refused", err)
	}
	forged, err := patch(`{"annotations": {"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "forged"},
		"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": %q, "uid": %q, "controller": true}]}`, node.Name, node.UID)
	w.Must(err)
	if !strings.Contains(forged, "kubernetes.io/config.source: file") || !strings.Contains(forged, "kind: Node") {
		t.Errorf("the API server did not take the patch: %s", forged)
	}
}
