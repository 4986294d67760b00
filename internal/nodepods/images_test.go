package nodepods_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/evictd/evictd/internal/nodepods"
)

// The store keeps enough of a pod to tell which images it uses, and no image's name.
func TestPodsKeepTheirImagesKeys(t *testing.T) {
	t.Parallel()
	full := fullPod("web")
	full.Spec.Volumes = append(full.Spec.Volumes, corev1.Volume{
		Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "SECRET-model:1"}},
	})
	full.Status.ContainerStatuses[0].Image = "docker.io/library/SECRET:1"
	full.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", Image: "SECRET-init:1", ImageID: "SECRET@sha256:abc"}}
	full.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", Image: "SECRET-debug:1"}}
	pods := start(t, fake.NewClientset(full), nodepods.Options{NodeName: "node-1", Now: time.Now})
	eventually(t, "first list", pods.Synced)
	kept, _ := pods.Get("shop", "web")
	want, got := nodepods.ImageKeys(full), nodepods.ImageKeys(kept)
	if !slices.Equal(got, want) || len(want) != 8 || slices.Contains(want, "") {
		t.Errorf("after trimming the images are %q, want %q", got, want)
	}
	if text := kept.String(); strings.Contains(text, "SECRET") {
		t.Errorf("the store keeps an image's name:\n%s", text)
	}
	if want, got := len(nodepods.DiskVolumes(full)), len(nodepods.DiskVolumes(kept)); want != got {
		t.Errorf("%d disk volumes after trimming, want %d", got, want)
	}
	if recorded := nodepods.Trim(kept); len(nodepods.ImageKeys(recorded)) > 0 {
		t.Error("a record of the pod would name images")
	}
}
