package nodepods

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/rank"
)

const (
	// sourceAPI is the value of annotationSource for pods from the API server.
	sourceAPI = "api"
	kindNode  = "Node"
	// kindDaemonSet is compared without an API group: a third party's DaemonSet
	// also starts its pods again on the same node.
	kindDaemonSet = "DaemonSet"
	// defaultGraceSeconds is what the API server writes when a pod says nothing.
	defaultGraceSeconds = int64(corev1.DefaultTerminationGracePeriodSeconds)
)

// Self says which pod evictd is. The zero value is no pod.
type Self struct {
	// UID is the UID of evictd's own pod; "" when it is not known.
	UID string
	// Namespace and Name are its name; both "" when they are not known.
	Namespace, Name string
}

// is reports whether the pod is evictd.
func (s Self) is(pod *corev1.Pod) bool {
	if s.UID != "" && s.UID == string(pod.UID) {
		return true
	}
	return s.Name != "" && s.Name == pod.Name && s.Namespace == pod.Namespace
}

// Facts returns what the ranking knows of a pod, for one resource: everything
// but Usage and Sampled.
func Facts(pod *corev1.Pod, resource rank.Resource, self Self) rank.Pod {
	facts := rank.Pod{
		Namespace:    pod.Namespace,
		Name:         pod.Name,
		UID:          string(pod.UID),
		Created:      pod.CreationTimestamp.Time,
		Request:      request(pod, resource),
		GraceSeconds: defaultGraceSeconds,
		Labels:       pod.Labels,
		Marks:        marks(pod, self),
	}
	if pod.Spec.Priority != nil {
		facts.Priority = *pod.Spec.Priority
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		facts.GraceSeconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		facts.Owner = owner.Kind + "/" + owner.Name
		facts.OwnerUID = string(owner.UID)
		facts.Marks.DaemonSet = owner.Kind == kindDaemonSet
	}
	return facts
}

// marks returns the facts that protect a pod, all but DaemonSet.
func marks(pod *corev1.Pod, self Self) rank.Marks {
	source, sourced := pod.Annotations[annotationSource]
	return rank.Marks{
		// A pod without the annotation came from the API server: only the kubelet
		// writes it, and a mirror pod carries its static pod's.
		Static:      sourced && source != sourceAPI,
		Mirror:      isMirror(pod),
		Self:        self.is(pod),
		Terminating: pod.DeletionTimestamp != nil,
		Finished:    pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
}

// isMirror reports whether the pod is the API's image of a static pod. A node as
// the owner says so too: only the kubelet may write such an owner.
func isMirror(pod *corev1.Pod) bool {
	if _, ok := pod.Annotations[annotationMirror]; ok {
		return true
	}
	for i := range pod.OwnerReferences {
		if pod.OwnerReferences[i].Kind == kindNode {
			return true
		}
	}
	return false
}

// UsageUID returns the UID under which the pod's cgroup and log directory are
// named. A static pod's is its configuration's hash; its mirror in the API has a
// UID of its own.
func UsageUID(pod *corev1.Pod) string {
	if hash := pod.Annotations[annotationHash]; hash != "" && isMirror(pod) {
		return hash
	}
	return string(pod.UID)
}

// DiskVolumes returns the names of the pod's volumes whose files are on the
// node's own disk and count as the pod's: emptyDir on the default medium,
// configMap and gitRepo. The kubelet also names hostPath, whose usage it cannot
// measure (k8s.io/kubernetes pkg/kubelet/eviction/helpers.go, localVolumeNames).
func DiskVolumes(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; onDisk(v) {
			names = append(names, v.Name)
		}
	}
	return names
}

func onDisk(v *corev1.Volume) bool {
	if v.EmptyDir != nil {
		return v.EmptyDir.Medium == corev1.StorageMediumDefault
	}
	return v.ConfigMap != nil || v.GitRepo != nil
}
