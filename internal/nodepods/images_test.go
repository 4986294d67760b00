package nodepods_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/nodepods"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func image(size int64, names ...string) corev1.ContainerImage {
	return corev1.ContainerImage{SizeBytes: size, Names: names}
}

// status is a pod of which only a status tells what it runs.
func status(image, id string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: image, ImageID: id}}}}
}

// listed is what a node's status lists.
type listed = []corev1.ContainerImage

func TestUnused(t *testing.T) {
	t.Parallel()
	nginx := image(100, "docker.io/library/nginx@"+digest, "docker.io/library/nginx:1.25")
	old := image(7, "docker.io/library/old:1")
	for name, test := range map[string]struct {
		images listed
		pod    *corev1.Pod
		want   int64
	}{
		"no pod":                          {listed{nginx, old}, &corev1.Pod{}, 107},
		"by the id that runs":             {listed{nginx, old}, status("", "docker.io/library/nginx@"+digest), 7},
		"by the id, of another registry":  {listed{nginx, old}, status("", "mirror.example:5000/nginx@"+digest), 7},
		"by the id, as Docker wrote it":   {listed{nginx, old}, status("", "docker-pullable://nginx@"+digest), 7},
		"by the name that runs":           {listed{nginx, old}, status("docker.io/library/nginx:1.25", ""), 7},
		"another tag":                     {listed{nginx, old}, status("docker.io/library/nginx:1.26", ""), 107},
		"a name and a digest":             {listed{nginx, old}, status("nginx:1.24@"+digest, ""), 7},
		"requested, not started":          {listed{nginx, old}, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "docker.io/library/nginx:1.25"}}}}, 107},
		"an init container's id":          {listed{nginx, old}, &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{ImageID: "x@" + digest}}}}, 7},
		"an ephemeral container's id":     {listed{nginx, old}, &corev1.Pod{Status: corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{{ImageID: "x@" + digest}}}}, 7},
		"an image that is a volume":       {listed{nginx, old}, &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "docker.io/library/nginx:1.25"}}}}}}, 7},
		"listed twice":                    {listed{old, image(7, "docker.io/library/old:1", "docker.io/library/old:2")}, &corev1.Pod{}, 7},
		"without a name, it may be used":  {listed{old, image(50)}, &corev1.Pod{}, 7},
		"a size that is none":             {listed{old, image(-50, "x")}, &corev1.Pod{}, 7},
		"sizes that are too large to add": {listed{image(math.MaxInt64, "x"), image(math.MaxInt64, "y")}, &corev1.Pod{}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := nodepods.UnusedImages(test.images, []*nodepods.Pod{nodepods.FromAPI(test.pod)}); err != nil || got != test.want {
				t.Errorf("unused images hold %d, %v; want %d", got, err, test.want)
			}
		})
	}
}

// A node that lists no images has some: what they hold is unknown, not zero.
func TestUnusedOfNoListIsUnknown(t *testing.T) {
	t.Parallel()
	if got, err := nodepods.UnusedImages(nil, nil); err == nil {
		t.Errorf("unused images hold %d, %v", got, err)
	}
}

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
	if len(kept.ImageKeys) != 6 {
		t.Errorf("the images' keys are %v, want six of them", kept.ImageKeys)
	}
	if text := fmt.Sprintf("%+v", *kept); strings.Contains(text, "SECRET") {
		t.Errorf("the value keeps an image's name:\n%s", text)
	}
}
