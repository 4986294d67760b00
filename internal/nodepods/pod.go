package nodepods

import (
	"encoding/json"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/rank"
)

const (
	// DefaultGraceSeconds is the grace period that the API server writes when a pod sets none.
	DefaultGraceSeconds = int64(corev1.DefaultTerminationGracePeriodSeconds)
	// reasonOOMKilled is what container runtimes report of a container whose process the kernel
	// has killed for want of memory.
	reasonOOMKilled = "OOMKilled"
)

// annotationHash is what the kubelet writes on static pods and their mirrors
// (k8s.io/kubernetes pkg/kubelet/types/pod_update.go).
const annotationHash = "kubernetes.io/config.hash"

// The annotations by which a pod asks Karpenter (sigs.k8s.io/karpenter pkg/utils/pod/scheduling.go,
// IsDoNotDisruptActive), the Cluster Autoscaler (k8s.io/autoscaler cluster-autoscaler/utils/drain,
// PodSafeToEvictKey) and the descheduler (sigs.k8s.io/descheduler pkg/descheduler/evictions/utils/utils.go,
// HaveNoEvictionAnnotation) not to disrupt it.
const (
	annotationKarpenter   = "karpenter.sh/do-not-disrupt"
	annotationAutoscaler  = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	annotationDescheduler = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
)

// Pod is what evictd knows of a pod of its node. It is created once, when the API server reports
// the pod, and is not changed after that. It has no field for an environment, a command line, the
// name of an image or of a secret. Its JSON is what evictd shows of a pod: what the ranking needs.
type Pod struct {
	// Pod is what the ranking knows of it, but for Request and Usage; see [Pod.Facts]. In [Pods]
	// its labels are those whose keys are needed, see [Options.LabelKeys].
	rank.Pod

	// CgroupUID is the UID that the pod's cgroup and directories are named by: a static pod's is its
	// configuration's hash, and its mirror in the API has a UID of its own.
	CgroupUID string `json:"-"`
	// MemoryRequest and StorageRequest are the pod's requests for memory and for ephemeral storage,
	// in bytes, as the kubelet computes them for its ranking; 0 is nothing.
	MemoryRequest  int64 `json:"memoryRequest"`
	StorageRequest int64 `json:"ephemeralStorageRequest"`
	// DeletionGraceSeconds is with what grace period it is being deleted; nil where that is not written.
	DeletionGraceSeconds *int64 `json:"-"`
	// KubeletEvictedAt is when the kubelet evicted the pod, by its clock in whole seconds, and the zero
	// time where it did not. It reports that only once none of its containers runs any more, and deletes
	// nothing: the pod stays listed, as finished (k8s.io/kubernetes pkg/kubelet/status/status_manager.go,
	// mergePodStatus).
	KubeletEvictedAt time.Time `json:"-"`
	// Started says that the status lists containers. RunningContainers are the runtime's ids of
	// those that run, init and ephemeral ones included.
	Started           bool     `json:"-"`
	RunningContainers []string `json:"-"`
	// DiskVolumes are the names of the volumes whose files are on the node's own disk and
	// count as the pod's: emptyDir on the default medium, configMap and gitRepo. The kubelet
	// also names hostPath, whose usage it cannot measure (k8s.io/kubernetes
	// pkg/kubelet/eviction/helpers.go, localVolumeNames).
	DiskVolumes []string `json:"-"`
	// OOMKilled are the containers that the status says the kernel has killed.
	OOMKilled []OOMKilled `json:"-"`
	// ImageKeys are the keys of the images that the pod runs, see [UnusedImages].
	ImageKeys []uint64 `json:"-"`
}

// OOMKilled is a container of a pod that the kernel has killed for want of memory.
type OOMKilled struct {
	// Container is its name. ID is the runtime's, which no other start of it has.
	Container, ID string
	// MemoryLimit is the container's own in bytes, by the pod's spec; 0 where it has none.
	MemoryLimit int64
}

// FromAPI returns what evictd keeps of a pod, but for Self. It shares the pod's labels, and no other map or list.
func FromAPI(pod *corev1.Pod) *Pod {
	p := &Pod{
		Pod: rank.Pod{
			Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID),
			Created:      pod.CreationTimestamp.Time,
			Priority:     ptr.Deref(pod.Spec.Priority, 0),
			GraceSeconds: ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, DefaultGraceSeconds),
			Labels:       pod.Labels,
			LabelsHash:   hashOfLabels(pod.Labels),
			Ready:        condition(pod, corev1.PodReady).Type != "", // as k8s.io/kubernetes pkg/api/pod, IsPodReady
			Marks: rank.Marks{
				Terminating: pod.DeletionTimestamp != nil,
				Finished:    pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
			},
		},
		CgroupUID:            string(pod.UID),
		MemoryRequest:        request(withAllocated(pod), corev1.ResourceMemory),
		StorageRequest:       request(pod, corev1.ResourceEphemeralStorage),
		DeletionGraceSeconds: pod.DeletionGracePeriodSeconds,
		Started:              len(pod.Status.ContainerStatuses) > 0,
	}
	if p.GraceSeconds < 0 {
		p.GraceSeconds = 1
	}
	// Phase and reason do not tell: of a pod whose containers ended with 0 the kubelet writes Succeeded in the end, and
	// one that it refuses to start has the reason Evicted too.
	if c := condition(pod, corev1.DisruptionTarget); p.Finished && c.Reason == corev1.PodReasonTerminationByKubelet {
		p.KubeletEvictedAt = c.LastTransitionTime.Time
	}
	p.markMirror(pod.Annotations)
	p.markOwned(pod)
	p.takeVolumes(pod.Spec.Volumes)
	p.takeContainers(pod)
	p.markAnnotated(pod)
	return p
}

// markMirror notes whether the pod is the API's image of a static pod, by the annotation that the
// kubelet itself uses (k8s.io/kubernetes pkg/kubelet/types/pod_update.go, IsMirrorPod). Through the API
// a static pod is seen only as its mirror, which carries the static pod's annotations.
//
// Users gain nothing by writing the annotation. Admission does not prevent it
// (plugin/pkg/admission/noderestriction restricts nodes alone), but a kubelet starts nothing for a
// mirror it did not make, and deletes it (pkg/kubelet, HandlePodAdditions and HandlePodCleanups);
// and the API server refuses to add it to a pod that exists (pkg/apis/core/validation,
// ValidatePodSpecificAnnotationUpdates). The other annotations have no meaning on a pod that is no
// mirror: every client that creates a pod can write them, and a kubelet overwrites them for itself.
//
// A Node as the owner proves nothing: every mirror has one beside the annotation, and every user
// who may create or patch a pod can write one.
func (p *Pod) markMirror(annotations map[string]string) {
	_, p.Mirror = annotations[corev1.MirrorPodAnnotationKey]
	if hash := annotations[annotationHash]; p.Mirror && hash != "" {
		p.CgroupUID = wording.Shorten(hash, longestName)
	}
}

// markOwned notes the pod's controller, without which nothing makes it again. A node is none: it starts nothing again
// that was evicted. A DaemonSet is one of any API group: a third party's also starts its pods again on the same node.
func (p *Pod) markOwned(pod *corev1.Pod) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind == "Node" {
		return
	}
	p.Owner = wording.Shorten(owner.Kind+"/"+owner.Name, longestName)
	p.OwnerUID = wording.Shorten(string(owner.UID), longestName)
	p.DaemonSet = owner.Kind == "DaemonSet"
	p.Pinned = isPinned(pod)
}

// isPinned reports whether a client wrote spec.nodeName into the pod. The node's name alone does
// not show it, because the scheduler sets it too. But the scheduler uses a Binding, and the API
// server records no field manager for that write (pkg/registry/core/pod/storage,
// setPodNodeAndMetadata). The client that creates a pod owns every field that it sets, and no
// client can change the node's name later. TestPinnedPods in test/api verifies both with a
// real API server.
//
// When the managed fields were cleared it is not known, and the pod counts as not pinned. A client
// that may patch a pod can write them, or come to own the name by applying the present one. That
// gains no more than creating a pinned pod, see docs/ranking.md.
func isPinned(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "" && e.FieldsV1 != nil && hasNodeName(e.FieldsV1.GetRawBytes())
	})
}

// hasNodeName reports whether the fields have spec.nodeName. Those that cannot be parsed count as without it.
func hasNodeName(fields []byte) bool {
	var all, spec map[string]json.RawMessage // not a struct, whose names match in any case
	if json.Unmarshal(fields, &all) != nil || json.Unmarshal(all["f:spec"], &spec) != nil {
		return false
	}
	_, owned := spec["f:nodeName"]
	return owned
}

// markAnnotated notes an annotation by which the pod asks not to be disrupted, by the rule of those who read it:
// one without an end before Karpenter's duration from the pod's start, which does not end before that is known.
// Any other value of Karpenter's means nothing, and the descheduler looks at no value. A start beyond the year
// 9000 is none: with a duration it could be later than what JSON can write.
func (p *Pod) markAnnotated(pod *corev1.Pod) {
	karpenters, start := pod.Annotations[annotationKarpenter], pod.Status.StartTime
	_, prefers := pod.Annotations[annotationDescheduler]
	switch lasts, err := time.ParseDuration(karpenters); {
	case karpenters == "true":
		p.Annotation = annotationKarpenter
	case pod.Annotations[annotationAutoscaler] == "false":
		p.Annotation = annotationAutoscaler
	case prefers:
		p.Annotation = annotationDescheduler
	case err == nil && lasts > 0:
		if p.Annotation = annotationKarpenter; start != nil && start.Year() <= 9000 {
			p.AnnotationUntil = start.Add(lasts)
		}
	}
}

// Facts returns what the ranking knows of the pod, for one resource: everything but Usage
// and Sampled. A resource that cannot be requested has no request.
func (p *Pod) Facts(resource rank.Resource) rank.Pod {
	facts := p.Pod
	facts.Request = [...]int64{rank.Memory: p.MemoryRequest, rank.Disk: p.StorageRequest, rank.PIDs: 0}[resource]
	return facts
}

// condition returns the condition of a type of a pod where it is true, and the zero one where it is not.
func condition(pod *corev1.Pod, of corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == of && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return corev1.PodCondition{}
}

// What is kept of a pod is bounded, because the API server bounds little of it: mostNames of each
// kind, and longestName bytes of what names an owner or a cgroup.
const (
	mostNames   = 256
	longestName = 320
)

// add appends what fits.
func add[T any](some []T, one T) []T {
	if len(some) == mostNames {
		return some
	}
	return append(some, one)
}

// labelsSeed makes it impossible to find two sets of labels, or two images, with one hash.
var labelsSeed = maphash.MakeSeed() //nolint:gochecknoglobals // of this process

// hashOfLabels returns the same for the same labels, in this process.
func hashOfLabels(labels map[string]string) (hash uint64) {
	for key, value := range labels {
		hash += maphash.Comparable(labelsSeed, [2]string{key, value})
	}
	return hash
}

// takeVolumes notes what matters of the volumes.
func (p *Pod) takeVolumes(volumes []corev1.Volume) {
	for i := range volumes {
		v := &volumes[i]
		if v.ConfigMap != nil || v.GitRepo != nil || v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault {
			p.DiskVolumes = add(p.DiskVolumes, v.Name)
		}
		if v.Image != nil {
			p.takeImage(v.Image.Reference)
		}
	}
}

// takeContainers notes what matters of the statuses of all containers, init and ephemeral ones included. A kill is in the
// last end and in the one before, which is all that a status keeps. With cgroup v1 this is the only sign of one, because
// the container's cgroup is removed with it. A process that is killed while the container's first one lives on is not
// reported there.
func (p *Pod) takeContainers(pod *corev1.Pod) {
	status := &pod.Status
	for _, s := range slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses) {
		// "containerd://<id>"; the runtime's name does not matter.
		if _, id, found := strings.Cut(s.ContainerID, "://"); found && s.State.Running != nil {
			p.RunningContainers = add(p.RunningContainers, id)
		}
		for _, ended := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if ended != nil && ended.Reason == reasonOOMKilled {
				p.OOMKilled = add(p.OOMKilled, OOMKilled{s.Name, ended.ContainerID, memoryLimit(&pod.Spec, &s)})
			}
		}
		p.takeImage(s.Image)
		p.takeImage(s.ImageID)
	}
}

// takeImage notes that an image is in use. The kubelet too counts those of containers and volumes, not those that a pod
// asks for (k8s.io/kubernetes pkg/kubelet/images/image_gc_manager.go, detectImages).
func (p *Pod) takeImage(reference string) {
	if reference != "" {
		p.ImageKeys = add(p.ImageKeys, imageKey(reference))
	}
}
