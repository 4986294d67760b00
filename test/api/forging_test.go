package api

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	patch := func(meta metav1.ObjectMeta) (*corev1.Pod, error) {
		text, fault := json.Marshal(map[string]any{"metadata": map[string]any{
			"annotations": meta.Annotations, "ownerReferences": meta.OwnerReferences,
		}})
		w.Must(fault)
		return w.Client.CoreV1().Pods(w.Namespace).Patch(t.Context(), "web", types.StrategicMergePatchType, text, metav1.PatchOptions{})
	}
	_, err = patch(metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "forged"}})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "may not add mirror pod annotation") {
		t.Errorf("adding the mirror annotation to a pod that is there: %v, want it refused", err)
	}
	forged, err := patch(metav1.ObjectMeta{
		Annotations: map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "forged"},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true),
		}},
	})
	w.Must(err)
	if forged.Annotations["kubernetes.io/config.source"] != "file" || len(forged.OwnerReferences) != 1 {
		t.Errorf("the API server did not take the patch: %+v", forged.ObjectMeta)
	}
}
