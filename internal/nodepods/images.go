package nodepods

import (
	"errors"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// imageKey returns a key that distinguishes images in this process and reveals nothing else: images'
// names are not kept, and what is kept of a reference is a hash of its digest, or of its whole name when
// it has none.
func imageKey(reference string) uint64 {
	if _, digest, found := strings.Cut(reference, "@"); found {
		reference = digest
	}
	return maphash.String(labelsSeed, reference)
}

// UnusedImages returns how many bytes the images hold that a node's status lists and that none of its
// pods uses, by the sizes in that list. An image counts as used when a pod's status has any
// of its names, also for pods that have ended. An image without a name, which may be any pod's,
// counts as used.
//
// The sum leaves out much: the kubelet lists only the largest images, 50 by default
// (nodeStatusMaxImages, pkg/kubelet/nodestatus/setters.go, Images), and containerd reports the size
// of an image as it was pulled, compressed. It may also be too large: layers that an image shares
// with one in use stay, and so do images that the runtime has pinned and those pulled less than two
// minutes ago (imageMinimumGCAge).
//
// Of a node whose status lists none nothing is known. It has some, so the kubelet is configured not to list
// them (nodeStatusMaxImages: 0), or could not.
func UnusedImages(images []corev1.ContainerImage, pods []*Pod) (int64, error) {
	if len(images) == 0 {
		return 0, errors.New("the node's status lists no images")
	}
	used := map[uint64]bool{}
	for _, pod := range pods {
		for _, key := range pod.ImageKeys {
			used[key] = true
		}
	}
	unused := int64(0)
	for _, image := range images {
		if len(image.Names) > 0 && !slices.ContainsFunc(image.Names, func(name string) bool { return used[imageKey(name)] }) {
			unused += max(0, min(image.SizeBytes, math.MaxInt64-unused))
		}
		for _, name := range image.Names {
			used[imageKey(name)] = true // an image that is listed twice counts once
		}
	}
	return unused, nil
}
