package nodepods_test

import (
	"math"
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

// A node that lists no images has some: what they hold is unknown, not zero.
func TestUnused(t *testing.T) {
	t.Parallel()
	nginx := image(100, "docker.io/library/nginx@"+digest, "docker.io/library/nginx:1.25")
	old := image(7, "docker.io/library/old:1")
	for name, test := range map[string]struct {
		images listed
		pod    *corev1.Pod
		want   int64 // below 0 is unknown
	}{
		"no list":                         {nil, &corev1.Pod{}, -1},
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
		got, err := nodepods.UnusedImages(test.images, []*nodepods.Pod{nodepods.FromAPI(test.pod)})
		if (err != nil) != (test.want < 0) || err == nil && got != test.want {
			t.Errorf("%s: unused images hold %d, %v; want %d", name, got, err, test.want)
		}
	}
}
