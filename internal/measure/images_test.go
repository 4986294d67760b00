package measure

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/nodepods"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func image(size int64, names ...string) Image { return Image{Bytes: size, Names: names} }

// status is a pod of which only a status tells what it runs.
func status(image, id string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Image: image, ImageID: id}}}}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	nginx := image(100, "docker.io/library/nginx@"+digest, "docker.io/library/nginx:1.25")
	old := image(7, "docker.io/library/old:1")
	for name, test := range map[string]struct {
		images []Image
		pod    *corev1.Pod
		want   int64
	}{
		"no pod":                          {[]Image{nginx, old}, &corev1.Pod{}, 107},
		"by the id that runs":             {[]Image{nginx, old}, status("", "docker.io/library/nginx@"+digest), 7},
		"by the id, of another registry":  {[]Image{nginx, old}, status("", "mirror.example:5000/nginx@"+digest), 7},
		"by the id, as Docker wrote it":   {[]Image{nginx, old}, status("", "docker-pullable://nginx@"+digest), 7},
		"by the name that runs":           {[]Image{nginx, old}, status("docker.io/library/nginx:1.25", ""), 7},
		"by the name, short":              {[]Image{nginx, old}, status("nginx:1.25", ""), 7},
		"another tag":                     {[]Image{nginx, old}, status("nginx:1.26", ""), 107},
		"a name and a digest":             {[]Image{nginx, old}, status("nginx:1.24@"+digest, ""), 7},
		"the tag that is left out":        {[]Image{image(5, "docker.io/team/app:latest")}, status("team/app", ""), 0},
		"a registry with a port":          {[]Image{image(5, "localhost:5000/app:latest")}, status("localhost:5000/app", ""), 0},
		"a registry, and no port":         {[]Image{image(5, "localhost/app:v1")}, status("localhost/app:v1", ""), 0},
		"requested, not started":          {[]Image{nginx, old}, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "nginx:1.25"}}}}, 7},
		"an init container's":             {[]Image{nginx, old}, &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Image: "nginx:1.25"}}}}, 7},
		"an init container's id":          {[]Image{nginx, old}, &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{ImageID: "x@" + digest}}}}, 7},
		"an ephemeral container's id":     {[]Image{nginx, old}, &corev1.Pod{Status: corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{{ImageID: "x@" + digest}}}}, 7},
		"an image that is a volume":       {[]Image{nginx, old}, &corev1.Pod{Spec: corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "nginx:1.25"}}}}}}, 7},
		"listed twice":                    {[]Image{old, image(7, "docker.io/library/old:1", "docker.io/library/old:2")}, &corev1.Pod{}, 7},
		"without a name, it may be used":  {[]Image{old, image(50)}, &corev1.Pod{}, 7},
		"a size that is none":             {[]Image{old, image(-50, "x")}, &corev1.Pod{}, 7},
		"sizes that are too large to add": {[]Image{image(math.MaxInt64, "x"), image(math.MaxInt64, "y")}, &corev1.Pod{}, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Unused(test.images, []*nodepods.Pod{nodepods.FromAPI(test.pod)}); err != nil || got != test.want {
				t.Errorf("unused images hold %d, %v; want %d", got, err, test.want)
			}
		})
	}
}

// A node that lists no images has some: what they hold is unknown, not zero.
func TestUnusedOfNoListIsUnknown(t *testing.T) {
	t.Parallel()
	if got, err := Unused(nil, nil); err == nil {
		t.Errorf("unused images hold %d, %v", got, err)
	}
}
