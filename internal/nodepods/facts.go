package nodepods

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/rank"
)

const (
	// sourceAPI is the value of annotationSource for pods from the API server.
	sourceAPI = "api"
	// kindNode is no controller: a node starts nothing again that was evicted.
	kindNode = "Node"
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
		Evict:        evictAnnotation(pod.Annotations),
		Labels:       pod.Labels,
		Ready:        IsReady(pod),
		Marks:        marks(pod, self),
	}
	if pod.Spec.Priority != nil {
		facts.Priority = *pod.Spec.Priority
	}
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		facts.GraceSeconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if facts.GraceSeconds < 0 {
		facts.GraceSeconds = 1 // what the API server means by it (BeforeDelete)
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind != kindNode {
		facts.Owner = owner.Kind + "/" + owner.Name
		facts.OwnerUID, facts.OwnerAPIVersion = string(owner.UID), owner.APIVersion
		facts.Marks.DaemonSet = owner.Kind == kindDaemonSet
		facts.Marks.Pinned = isPinned(pod) // without a controller nobody makes it again
	}
	return facts
}

// IsReady reports whether the pod is one that a PodDisruptionBudget counts as healthy,
// by what the API server goes by (k8s.io/kubernetes pkg/api/pod, IsPodReady).
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// longestValue is how much of an annotation's value is kept, in bytes: enough to be
// recognized, and a tenant can write 256 KiB.
const longestValue = 32

// evictAnnotation returns the value of the annotation with which a pod asks to stay, cut
// short if need be; "" where there is none.
func evictAnnotation(annotations map[string]string) string {
	value := annotations[rank.Annotation]
	if len(value) > longestValue {
		value = strings.Clone(strings.ToValidUTF8(value[:longestValue], ""))
	}
	return value
}

// marks returns the facts that protect a pod, all but those of its controller.
func marks(pod *corev1.Pod, self Self) rank.Marks {
	source, sourced := pod.Annotations[annotationSource]
	mirror := IsMirror(pod)
	return rank.Marks{
		// Through the API a static pod is seen only as its mirror, which carries the
		// static pod's annotations. On any other pod the annotation says nothing:
		// whoever makes a pod can write it, and a kubelet overwrites it for itself.
		Static:      mirror && sourced && source != sourceAPI,
		Mirror:      mirror,
		Self:        self.is(pod),
		Terminating: pod.DeletionTimestamp != nil,
		Finished:    Finished(pod),
	}
}

// Finished reports whether the pod's containers have ended for good. The kubelet says so
// of a pod that it evicts only once none of them runs any more, and deletes nothing: the
// pod stays listed (k8s.io/kubernetes pkg/kubelet/status/status_manager.go,
// mergePodStatus).
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// IsMirror reports whether the pod is the API's image of a static pod, by the
// annotation that the kubelet itself goes by (k8s.io/kubernetes
// pkg/kubelet/types/pod_update.go, IsMirrorPod).
//
// Writing the annotation gains nobody anything. Admission does not keep users from
// it (plugin/pkg/admission/noderestriction restricts nodes alone), but a kubelet
// starts nothing for a mirror it did not make, and deletes it (pkg/kubelet,
// HandlePodAdditions and HandlePodCleanups); and the API server refuses to add it
// to a pod that is there (pkg/apis/core/validation,
// ValidatePodSpecificAnnotationUpdates).
//
// A Node as the owner says nothing: every mirror has one beside the annotation, and
// whoever may make or patch a pod can write one.
func IsMirror(pod *corev1.Pod) bool {
	_, annotated := pod.Annotations[annotationMirror]
	return annotated
}

// UsageUID returns the UID under which the pod's cgroup and log directory are
// named. A static pod's is its configuration's hash; its mirror in the API has a
// UID of its own.
func UsageUID(pod *corev1.Pod) string {
	if hash := pod.Annotations[annotationHash]; hash != "" && IsMirror(pod) {
		return hash
	}
	return string(pod.UID)
}

// RunningContainers returns the container runtime's ids of the pod's containers that
// run by its status, init and ephemeral ones included.
func RunningContainers(pod *corev1.Pod) []string {
	var ids []string
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			// "containerd://<id>"; the runtime's name does not matter.
			if _, id, found := strings.Cut(statuses[i].ContainerID, "://"); found && statuses[i].State.Running != nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
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
