package nodepods

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// request returns the pod's request for a resource, in bytes, as the kubelet computes it for its ranking
// (GetResourceRequestQuantity).
func request(pod *corev1.Pod, name corev1.ResourceName) int64 {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		// One pod-level figure replaces the containers' for every resource, also for those that
		// cannot be requested at pod level.
		SkipContainerLevelResources: resourcehelper.IsPodLevelResourcesSet(pod),
		ExcludeOverhead:             true, // a pod without requests has none
	})
	total := requests[name].DeepCopy() // a pod-level quantity is the pod's own
	if overhead, ok := pod.Spec.Overhead[name]; ok && !total.IsZero() {
		total.Add(overhead)
	}
	return saturated(total)
}

// withAllocated returns a pod whose memory request is the memory that the kubelet has allocated,
// when the status shows that: the kubelet ranks by it, not by the request of a pending resize. Only
// memory can be resized.
func withAllocated(pod *corev1.Pod) *corev1.Pod {
	spec := &pod.Spec
	return &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     allocatedContainers(spec.Containers, pod.Status.ContainerStatuses),
		InitContainers: allocatedContainers(spec.InitContainers, pod.Status.InitContainerStatuses),
		Resources:      allocatedPodLevel(pod),
		Overhead:       spec.Overhead,
	}}
}

// allocatedContainers returns the containers with the requests that their statuses show, where these show any.
func allocatedContainers(containers []corev1.Container, statuses []corev1.ContainerStatus) []corev1.Container {
	containers = slices.Clone(containers)
	for i := range containers {
		c := &containers[i]
		switch at := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name }); {
		case at < 0:
		case len(statuses[at].AllocatedResources) > 0:
			c.Resources.Requests = statuses[at].AllocatedResources
		case statuses[at].Resources != nil: // kubelets before 1.35 may show them here alone
			c.Resources.Requests = statuses[at].Resources.Requests
		}
	}
	return containers
}

// allocatedPodLevel returns the pod's own resources. In status.allocatedResources the
// overhead is included.
func allocatedPodLevel(pod *corev1.Pod) *corev1.ResourceRequirements {
	resources := pod.Spec.Resources
	total, ok := pod.Status.AllocatedResources[corev1.ResourceMemory]
	if resources == nil || !ok {
		return resources
	}
	if _, asked := resources.Requests[corev1.ResourceMemory]; !asked {
		return resources
	}
	total = total.DeepCopy()
	total.Sub(pod.Spec.Overhead[corev1.ResourceMemory])
	if total.Sign() < 0 {
		total = resource.Quantity{}
	}
	return &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: total}}
}

// memoryLimit returns the memory limit of a container, in bytes: the one in force where the kubelet reports it, as
// during a resize, else the specification's; 0 where it has none.
func memoryLimit(spec *corev1.PodSpec, status *corev1.ContainerStatus) int64 {
	if status.Resources != nil {
		return saturated(*status.Resources.Limits.Memory())
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.Name == status.Name {
			return saturated(*c.Resources.Limits.Memory())
		}
	}
	return 0
}

// saturated returns the quantity as an int64, rounded up as [resource.Quantity.Value]
// does, which wraps round where it does not fit.
func saturated(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return q.Value()
}
