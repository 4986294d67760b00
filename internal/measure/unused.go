package measure

import (
	"errors"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/internal/nodepods"
)

// ErrNotListed is why nothing is known of a node's images: its status lists none. A node has
// some, so the kubelet is configured not to list them (nodeStatusMaxImages: 0), or could not.
var ErrNotListed = errors.New("the node's status lists no images")

// Unused returns how many bytes the images hold that a node's status lists and that none of its
// pods uses, by the sizes in that list. An image counts as used when a pod's spec or status has any
// of its names, also for pods that have ended. An image without a name, which may be any pod's,
// counts as used.
//
// The sum leaves out much: the kubelet lists only the largest images, 50 by default
// (nodeStatusMaxImages, pkg/kubelet/nodestatus/setters.go, Images), and containerd reports the size
// of an image as it was pulled, compressed. It may also be too large: layers that an image shares
// with one in use stay, and so do images that the runtime has pinned and those pulled less than two
// minutes ago (imageMinimumGCAge).
func Unused(images []corev1.ContainerImage, pods []*nodepods.Pod) (int64, error) {
	if len(images) == 0 {
		return 0, ErrNotListed
	}
	used := map[string]bool{}
	for _, pod := range pods {
		for _, key := range pod.ImageKeys {
			used[key] = true
		}
	}
	unused := int64(0)
	for i := range images {
		image := &images[i]
		if !free(image, used) || image.SizeBytes <= 0 {
			continue
		}
		if image.SizeBytes > math.MaxInt64-unused {
			return math.MaxInt64, nil
		}
		unused += image.SizeBytes
	}
	return unused, nil
}

// free reports whether no name of an image is used, and takes its names, so that an image
// that is listed twice counts once.
func free(image *corev1.ContainerImage, used map[string]bool) bool {
	taken := len(image.Names) == 0
	for _, name := range image.Names {
		taken = taken || used[nodepods.ImageKey(name)]
	}
	for _, name := range image.Names {
		used[nodepods.ImageKey(name)] = true
	}
	return !taken
}
