package nodepods

import (
	"fmt"
	"hash/fnv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// ImageKey returns a key that distinguishes images and reveals nothing else: images' names are not
// kept, and what is kept of a reference is a hash of its digest, or of its whole name when it has
// none. A name without a registry or a tag is Docker Hub's latest, as for the runtimes
// (github.com/distribution/reference, ParseNormalizedNamed). The key of a key is the key itself;
// that of "" is "".
func ImageKey(reference string) string {
	if reference == "" || strings.HasPrefix(reference, keyMark) {
		return reference
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(imageIdentity(reference))) // never fails
	return fmt.Sprintf("%s%016x", keyMark, hash.Sum64())
}

// keyMark begins a key. No reference of an image begins with it.
const keyMark = "#"

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
	var keys []string
	add := func(reference string) {
		if reference != "" {
			keys = append(keys, ImageKey(reference))
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			add(containers[i].Image)
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].Image)
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			add(image.Reference)
		}
	}
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			add(statuses[i].Image)
			add(statuses[i].ImageID)
		}
	}
	return keys
}
