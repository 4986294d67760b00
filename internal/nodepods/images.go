package nodepods

import (
	"hash/maphash"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ImageKey returns a key that distinguishes images in this process and reveals nothing else: images'
// names are not kept, and what is kept of a reference is a hash of its digest, or of its whole name when
// it has none. A name without a registry or a tag is Docker Hub's latest, as for the runtimes
// (github.com/distribution/reference, ParseNormalizedNamed).
func ImageKey(reference string) string {
	return strconv.FormatUint(maphash.String(labelsSeed, imageIdentity(reference)), 36)
}

func imageIdentity(reference string) string {
	// "docker-pullable://nginx@sha256:…" is what the kubelet wrote for Docker.
	if _, name, found := strings.Cut(reference, "://"); found {
		reference = name
	}
	if _, digest, found := strings.Cut(reference, "@"); found {
		return digest
	}
	if strings.HasPrefix(reference, "sha256:") {
		return reference
	}
	registry, rest, found := strings.Cut(reference, "/")
	switch {
	case !found:
		reference = "docker.io/library/" + reference
	case !strings.ContainsAny(registry, ".:") && registry != "localhost":
		reference = "docker.io/" + reference
	case registry == "docker.io" && !strings.Contains(rest, "/"):
		reference = "docker.io/library/" + rest
	}
	if !strings.Contains(reference[strings.LastIndex(reference, "/"):], ":") {
		reference += ":latest"
	}
	return reference
}

// imageKeys returns the keys of all images that the pod names: those in the specification of its
// containers and volumes, and those that its statuses say its containers run, init and ephemeral
// ones included.
func imageKeys(pod *corev1.Pod) []string {
	var names []string
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			names = append(names, containers[i].Image)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			names = append(names, image.Reference)
		}
	}
	for s := range statuses(&pod.Status) {
		names = append(names, s.Image, s.ImageID)
	}
	var keys []string
	for _, name := range names {
		if name != "" {
			keys = append(keys, ImageKey(name))
		}
	}
	return keys
}
