package nodepods

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/pkg/rank"
)

// request returns what the pod asks for, in bytes, as the kubelet computes it
// for its ranking (GetResourceRequestQuantity); 0 for what nobody can ask for.
func request(pod *corev1.Pod, ranked rank.Resource) int64 {
	var name corev1.ResourceName
	switch ranked {
	case rank.Memory:
		name = corev1.ResourceMemory
	case rank.Disk:
		name = corev1.ResourceEphemeralStorage
	default:
		return 0
	}
	var total resource.Quantity
	if podLevel(pod.Spec.Resources) {
		// One pod-level figure replaces the containers' for every resource, also
		// for those that cannot be asked for at pod level.
		total = podRequest(pod, name)
	} else {
		total = containersRequest(pod, name)
	}
	if overhead, ok := pod.Spec.Overhead[name]; ok && !total.IsZero() {
		total.Add(overhead)
	}
	return saturated(total)
}

// podLevel reports whether the pod's own resources are set, which the kubelet
// takes from the keys it supports there, in requests or limits.
func podLevel(resources *corev1.ResourceRequirements) bool {
	if resources == nil {
		return false
	}
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		for name := range list {
			if podLevelName(name) {
				return true
			}
		}
	}
	return false
}

func podLevelName(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// podRequest returns the request at pod level. During a resize the kubelet works
// with what it has allocated; status.allocatedResources is that plus the
// overhead, which is added later.
func podRequest(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	spec, asked := pod.Spec.Resources.Requests[name]
	if !asked || !podLevelName(name) {
		return resource.Quantity{}
	}
	allocated, ok := pod.Status.AllocatedResources[name]
	if !ok {
		return spec.DeepCopy()
	}
	total := allocated.DeepCopy()
	if overhead, ok := pod.Spec.Overhead[name]; ok {
		total.Sub(overhead)
	}
	if total.Sign() < 0 {
		return resource.Quantity{}
	}
	return total
}

// containersRequest returns the sum of the containers and sidecars, or what the
// pod needs while it starts, whichever is more: init containers run one after
// another, next to the sidecars before them.
func containersRequest(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	var total, sidecars, starting resource.Quantity
	for i := range pod.Spec.Containers {
		total.Add(containerRequest(&pod.Spec.Containers[i], pod.Status.ContainerStatuses, name))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := containerRequest(c, pod.Status.InitContainerStatuses, name)
		if isSidecar(c) {
			total.Add(step)
			sidecars.Add(step)
			step = sidecars.DeepCopy()
		} else {
			step.Add(sidecars)
		}
		if step.Cmp(starting) > 0 {
			starting = step
		}
	}
	if starting.Cmp(total) > 0 {
		return starting
	}
	return total
}

func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// containerRequest returns a container's request. The kubelet ranks by what it
// has allocated, not by what a pending resize asks for; where the status shows
// that, it counts, also when it lacks the resource. Only memory can be resized.
func containerRequest(
	c *corev1.Container, statuses []corev1.ContainerStatus, name corev1.ResourceName,
) resource.Quantity {
	requests := c.Resources.Requests
	if name == corev1.ResourceMemory {
		for i := range statuses {
			if s := &statuses[i]; s.Name == c.Name {
				requests = allocated(s, requests)
				break
			}
		}
	}
	quantity := requests[name]
	return quantity.DeepCopy()
}

// allocated returns the requests that the status shows, or else the spec's.
// Kubelets before 1.35 may show them in resources alone.
func allocated(s *corev1.ContainerStatus, spec corev1.ResourceList) corev1.ResourceList {
	switch {
	case len(s.AllocatedResources) > 0:
		return s.AllocatedResources
	case s.Resources != nil:
		return s.Resources.Requests
	default:
		return spec
	}
}

// saturated returns the quantity as an int64, rounded up as [resource.Quantity.Value]
// does, which wraps round where it does not fit.
func saturated(q resource.Quantity) int64 {
	if q.CmpInt64(math.MaxInt64) >= 0 {
		return math.MaxInt64
	}
	return q.Value()
}
