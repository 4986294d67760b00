package nodepods_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/nodepods"
)

// A pod's value tells which images it uses, and has no image's name.
func TestPodsKeepTheirImagesKeys(t *testing.T) {
	t.Parallel()
	full := fullPod("web")
	full.Spec.Volumes = append(full.Spec.Volumes, corev1.Volume{
		Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "SECRET-model:1"}},
	})
	full.Status.ContainerStatuses[0].Image = "docker.io/library/SECRET:1"
	full.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", Image: "SECRET-init:1", ImageID: "SECRET@sha256:abc"}}
	full.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", Image: "SECRET-debug:1"}}
	kept := nodepods.FromAPI(full)
	if len(kept.ImageKeys) != 8 || slices.Contains(kept.ImageKeys, "") {
		t.Errorf("the images' keys are %q, want eight of them", kept.ImageKeys)
	}
	if text := fmt.Sprintf("%+v", *kept); strings.Contains(text, "SECRET") {
		t.Errorf("the value keeps an image's name:\n%s", text)
	}
}
