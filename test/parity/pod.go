package parity

import (
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kuberesource "k8s.io/kubernetes/pkg/api/v1/resource"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/evictd/evictd/pkg/usage"
)

// Kind is the kind of a pod's owner.
type Kind string

// The kinds.
const (
	// Replica: a ReplicaSet owns the pod.
	Replica Kind = "ReplicaSet"
	// Daemon: a DaemonSet owns it.
	Daemon Kind = "DaemonSet"
	// Bare: the pod has no owner.
	Bare Kind = ""
	// Static: the kubelet runs it from a file, and the API has its mirror.
	Static Kind = "Static"
)

// Pod is one pod and its usage. It is the source for the pod in the API server, the pod in
// the kubelet, and the measurements of both.
type Pod struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Kind      Kind   `json:"kind"`
	// Priority is spec.priority; nil is none.
	Priority *int32 `json:"priority,omitempty"`
	// Age is in minutes.
	Age         int               `json:"age,omitempty"`
	Label       map[string]string `json:"labels,omitempty"`
	Terminating bool              `json:"terminating,omitempty"`
	Finished    bool              `json:"finished,omitempty"`
	Containers  []Container       `json:"containers"`
	// Overhead, Requests and Limits are those of the pod itself, by resource.
	Overhead map[string]string `json:"overhead,omitempty"`
	Requests map[string]string `json:"podRequests,omitempty"`
	Limits   map[string]string `json:"podLimits,omitempty"`
	Volumes  []Volume          `json:"volumes,omitempty"`
	// Unsampled says that the pod has no measurement at all.
	Unsampled bool `json:"unsampled,omitempty"`
	// Memory is the working set; nil where the figure is missing.
	Memory *int64 `json:"memory,omitempty"`
	// Cached is how much of it is page cache.
	Cached int64 `json:"cached,omitempty"`
	// Processes and Tasks are what the kubelet and evictd count; nil where the figure is
	// missing.
	Processes *int64 `json:"processes,omitempty"`
	Tasks     *int64 `json:"tasks,omitempty"`

	// made is the result of finished.
	made *corev1.Pod
}

// finished returns the kubelet's pod and caches it: the pod must not change any more.
func (p *Pod) finished() *corev1.Pod {
	if p.made == nil {
		p.made = p.kubelet()
	}
	return p.made
}

// Role is a container's place in its pod.
type Role string

// The roles.
const (
	Main    Role = ""
	Init    Role = "init"
	Sidecar Role = "sidecar"
)

// Container is one container with its requests and its disk usage.
type Container struct {
	Role Role `json:"role,omitempty"`
	// Requests are by resource.
	Requests map[string]string `json:"requests,omitempty"`
	// Allocated is the memory that the kubelet has allocated while a resize is pending; ""
	// where it equals the request.
	Allocated string `json:"allocated,omitempty"`
	// Rootfs and Logs are its disk usage; nil where that is missing.
	Rootfs *Disk `json:"rootfs,omitempty"`
	Logs   *Disk `json:"logs,omitempty"`
}

// Volume is one volume.
type Volume struct {
	// Kind is emptyDir, memory, configMap, gitRepo, hostPath or secret.
	Kind string `json:"kind"`
	// Disk is nil where the kubelet does not measure it.
	Disk *Disk `json:"disk,omitempty"`
}

// Disk is an amount of a filesystem.
type Disk struct {
	Bytes  int64 `json:"bytes"`
	Inodes int64 `json:"inodes"`
}

// uid returns the UID in the API, and hash the one that the kubelet and the cgroup use,
// which differs for a static pod.
func (p *Pod) uid() string { return "uid-" + p.Name }

func (p *Pod) hash() string {
	if p.Kind == Static {
		return "hash-" + p.Name
	}
	return p.uid()
}

// priority returns the effective integer.
func (p *Pod) priority() int32 {
	if p.Priority == nil {
		return 0
	}
	return *p.Priority
}

// api returns the pod as the API server has it.
func (p *Pod) api() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: types.UID(p.uid()), Labels: p.Label,
			CreationTimestamp: metav1.NewTime(start().Add(-time.Duration(p.Age) * time.Minute)),
			OwnerReferences:   p.owners(),
		},
		Spec:   corev1.PodSpec{Priority: p.Priority, Overhead: list(p.Overhead), TerminationGracePeriodSeconds: new(ownGrace)},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if p.Kind == Static {
		pod.Annotations = map[string]string{
			kubelettypes.ConfigMirrorAnnotationKey: p.hash(),
			kubelettypes.ConfigHashAnnotationKey:   p.hash(),
			kubelettypes.ConfigSourceAnnotationKey: kubelettypes.FileSource,
		}
	}
	if p.Terminating {
		pod.DeletionTimestamp = new(metav1.NewTime(start()))
	}
	if p.Finished {
		pod.Status.Phase = corev1.PodFailed
	}
	if p.Requests != nil || p.Limits != nil {
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: list(p.Requests), Limits: list(p.Limits)}
	}
	for i := range p.Containers {
		p.Containers[i].addTo(pod, i)
	}
	for i := range p.Volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, p.Volumes[i].volume(i))
	}
	return pod
}

// ownGrace is the pods' own grace period. It differs from the one second of the kubelet's
// hard eviction, to distinguish the two.
const ownGrace = int64(30)

func (p *Pod) owners() []metav1.OwnerReference {
	kind := string(p.Kind)
	switch p.Kind {
	case Bare:
		return nil
	case Static:
		kind = "Node"
	case Replica, Daemon:
	}
	return []metav1.OwnerReference{{Kind: kind, Name: "owner", UID: "owner", Controller: new(true)}}
}

func (c *Container) addTo(pod *corev1.Pod, index int) {
	container := corev1.Container{Name: containerName(index), Resources: corev1.ResourceRequirements{Requests: list(c.Requests)}}
	status := corev1.ContainerStatus{Name: container.Name}
	if c.Allocated != "" {
		status.AllocatedResources = list(c.Requests)
		status.AllocatedResources[corev1.ResourceMemory] = resource.MustParse(c.Allocated)
	}
	switch c.Role {
	case Main:
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		return
	case Sidecar:
		container.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	case Init:
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, status)
}

func containerName(index int) string { return "c" + strconv.Itoa(index) }

func volumeName(index int) string { return "v" + strconv.Itoa(index) }

func (v *Volume) volume(index int) corev1.Volume {
	volume := corev1.Volume{Name: volumeName(index)}
	switch v.Kind {
	case "emptyDir":
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case "memory":
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	case "configMap":
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{}
	case "gitRepo":
		volume.GitRepo = &corev1.GitRepoVolumeSource{}
	case "hostPath":
		volume.HostPath = &corev1.HostPathVolumeSource{Path: "/var/data"}
	default:
		volume.Secret = &corev1.SecretVolumeSource{}
	}
	return volume
}

// kubelet returns the pod as the kubelet passes it to its eviction manager: with its source,
// the kubelet's UID, and the allocated resources in place of the requests.
func (p *Pod) kubelet() *corev1.Pod {
	pod := p.api()
	pod.UID = types.UID(p.hash())
	if p.Kind == Static {
		pod.OwnerReferences = nil
		delete(pod.Annotations, kubelettypes.ConfigMirrorAnnotationKey)
	} else {
		pod.Annotations = map[string]string{kubelettypes.ConfigSourceAnnotationKey: kubelettypes.ApiserverSource}
	}
	substituteAllocated(pod.Spec.Containers, pod.Status.ContainerStatuses)
	substituteAllocated(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	return pod
}

func substituteAllocated(containers []corev1.Container, statuses []corev1.ContainerStatus) {
	for i := range containers {
		if statuses[i].AllocatedResources != nil {
			containers[i].Resources.Requests = statuses[i].AllocatedResources
		}
	}
}

// active reports whether the kubelet counts the pod among its active pods
// (pkg/kubelet/kubelet_pods.go, filterOutInactivePods).
func (p *Pod) active() bool { return !p.Finished || p.Terminating }

// stats returns the pod's entry in the kubelet's Summary, nil where it has none.
func (p *Pod) stats() *statsapi.PodStats {
	if p.Unsampled {
		return nil
	}
	stats := &statsapi.PodStats{PodRef: statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: p.hash()}}
	if p.Memory != nil {
		stats.Memory = &statsapi.MemoryStats{WorkingSetBytes: unsigned(*p.Memory)}
	}
	if p.Processes != nil {
		stats.ProcessStats = &statsapi.ProcessStats{ProcessCount: unsigned(*p.Processes)}
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == Init {
			continue // it has ended
		}
		stats.Containers = append(stats.Containers, statsapi.ContainerStats{
			Name: containerName(i), Rootfs: c.Rootfs.stats(), Logs: c.Logs.stats(),
		})
	}
	for i := range p.Volumes {
		if fs := p.Volumes[i].Disk.stats(); fs != nil {
			stats.VolumeStats = append(stats.VolumeStats, statsapi.VolumeStats{Name: volumeName(i), FsStats: *fs})
		}
	}
	return stats
}

func (d *Disk) stats() *statsapi.FsStats {
	if d == nil {
		return nil
	}
	return &statsapi.FsStats{UsedBytes: unsigned(d.Bytes), InodesUsed: unsigned(d.Inodes)}
}

// cgroup returns what evictd reads from the pod's cgroup, and whether it could be read.
func (p *Pod) cgroup() (usage.Pod, bool) {
	if p.Unsampled || p.Memory == nil {
		return usage.Pod{}, false
	}
	read := usage.Pod{UID: p.hash(), WorkingSet: *p.Memory, Anonymous: *p.Memory - p.Cached}
	if p.Tasks != nil {
		read.Tasks, read.TasksKnown = *p.Tasks, true
	}
	return read, true
}

// unsigned returns a figure as the Summary contains it; none is negative there.
func unsigned(n int64) *uint64 {
	if n < 0 {
		return new(uint64(math.MaxInt64))
	}
	return new(uint64(n))
}

func list(texts map[string]string) corev1.ResourceList {
	if texts == nil {
		return nil
	}
	resources := corev1.ResourceList{}
	for name, text := range texts {
		resources[corev1.ResourceName(name)] = resource.MustParse(text)
	}
	return resources
}

// asked returns a pod's request as the kubelet computes it, in whole numbers.
func asked(pod *corev1.Pod, name corev1.ResourceName) int64 {
	request := kuberesource.GetResourceRequestQuantity(pod, name)
	return request.Value()
}
