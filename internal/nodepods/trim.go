package nodepods

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/rank"
)

// The annotations that the kubelet writes on static pods and their mirrors
// (k8s.io/kubernetes pkg/kubelet/types/pod_update.go).
const (
	annotationMirror = corev1.MirrorPodAnnotationKey
	annotationSource = "kubernetes.io/config.source"
	annotationHash   = "kubernetes.io/config.hash"
)

// trim is the informer's transform: it makes a pod that holds what the ranking
// reads, what tells the pod's images from others ([ImageKey]), and nothing else. It changes
// nothing in place and, applied to its own result, gives the same again, as a transform must.
func trim(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil // a tombstone of an object that was trimmed before
	}
	kept := Trim(pod)
	keepImages(kept, pod)
	return kept, nil
}

// Trim returns a new pod that holds what the ranking reads of a pod and nothing
// else: no environment, command, image or secret's name. It shares the maps and
// lists that it keeps.
func Trim(pod *corev1.Pod) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   pod.TypeMeta,
		ObjectMeta: trimMeta(pod),
		Spec:       trimSpec(&pod.Spec),
		Status:     trimStatus(&pod.Status),
	}
}

func trimMeta(pod *corev1.Pod) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:                       pod.Name,
		Namespace:                  pod.Namespace,
		UID:                        pod.UID,
		ResourceVersion:            pod.ResourceVersion,
		CreationTimestamp:          pod.CreationTimestamp,
		DeletionTimestamp:          pod.DeletionTimestamp,
		DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		Labels:                     pod.Labels,
		Annotations:                trimAnnotations(pod.Annotations),
		OwnerReferences:            pod.OwnerReferences,
		ManagedFields:              trimManagedFields(pod),
	}
}

func trimAnnotations(annotations map[string]string) map[string]string {
	var kept map[string]string
	for _, key := range []string{annotationMirror, annotationSource, annotationHash} {
		value, ok := annotations[key]
		if !ok {
			continue
		}
		if kept == nil {
			kept = make(map[string]string, 3)
		}
		kept[key] = value
	}
	if value := evictAnnotation(annotations); value != "" {
		if kept == nil {
			kept = make(map[string]string, 1)
		}
		kept[rank.Annotation] = value
	}
	return kept
}

func trimSpec(spec *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		NodeName:                      spec.NodeName,
		Priority:                      spec.Priority,
		TerminationGracePeriodSeconds: spec.TerminationGracePeriodSeconds,
		Overhead:                      spec.Overhead,
		Resources:                     trimResources(spec.Resources),
		InitContainers:                trimContainers(spec.InitContainers),
		Containers:                    trimContainers(spec.Containers),
		Volumes:                       trimVolumes(spec.Volumes),
	}
}

func trimResources(resources *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if resources == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: resources.Requests, Limits: resources.Limits}
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	if containers == nil {
		return nil
	}
	kept := make([]corev1.Container, 0, len(containers))
	for i := range containers {
		c := &containers[i]
		kept = append(kept, corev1.Container{
			Name:          c.Name,
			RestartPolicy: c.RestartPolicy,
			Resources:     corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits},
		})
	}
	return kept
}

// trimVolumes keeps the volumes on the node's disk, with their kind alone.
func trimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		v := &volumes[i]
		if !onDisk(v) {
			continue
		}
		small := corev1.Volume{Name: v.Name}
		switch {
		case v.EmptyDir != nil:
			small.EmptyDir = &corev1.EmptyDirVolumeSource{}
		case v.ConfigMap != nil:
			small.ConfigMap = &corev1.ConfigMapVolumeSource{}
		default:
			small.GitRepo = &corev1.GitRepoVolumeSource{}
		}
		kept = append(kept, small)
	}
	return kept
}

func trimStatus(status *corev1.PodStatus) corev1.PodStatus {
	kept := corev1.PodStatus{
		Phase:                 status.Phase,
		Reason:                status.Reason,
		StartTime:             status.StartTime,
		AllocatedResources:    status.AllocatedResources,
		ContainerStatuses:     trimStatuses(status.ContainerStatuses),
		InitContainerStatuses: trimStatuses(status.InitContainerStatuses),

		EphemeralContainerStatuses: trimStatuses(status.EphemeralContainerStatuses),
	}
	for i := range status.Conditions {
		switch c := &status.Conditions[i]; c.Type {
		case corev1.DisruptionTarget:
			kept.Conditions = append(kept.Conditions, corev1.PodCondition{
				Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
			})
		case corev1.PodReady:
			kept.Conditions = append(kept.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status})
		default:
		}
	}
	return kept
}

func trimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	if statuses == nil {
		return nil
	}
	kept := make([]corev1.ContainerStatus, 0, len(statuses))
	for i := range statuses {
		s := &statuses[i]
		kept = append(kept, corev1.ContainerStatus{
			Name:               s.Name,
			ContainerID:        s.ContainerID,
			State:              corev1.ContainerState{Running: s.State.Running},
			AllocatedResources: s.AllocatedResources,
			Resources:          trimResources(s.Resources),
		})
	}
	return kept
}
