package nodepods

import corev1 "k8s.io/api/core/v1"

// reasonOOMKilled is what container runtimes report of a container whose process the kernel
// has killed for want of memory.
const reasonOOMKilled = "OOMKilled"

// OOMKilled is a container of a pod that the kernel has killed for want of memory.
type OOMKilled struct {
	// Container is its name. ID is the runtime's, which no other start of it has.
	Container, ID string
}

// oomKilledIn returns the containers that a pod's status reports as killed: each by its last end
// and the one before, which is all that a status keeps. With cgroup v1 this is the only sign of a
// kill, because the container's cgroup is removed with it. A process that is killed while the
// container's first one lives on is not reported there.
func oomKilledIn(status *corev1.PodStatus) []OOMKilled {
	var killed []OOMKilled
	for _, s := range statuses(status) {
		for _, ended := range []*corev1.ContainerStateTerminated{s.LastTerminationState.Terminated, s.State.Terminated} {
			if ended != nil && ended.Reason == reasonOOMKilled {
				killed = append(killed, OOMKilled{s.Name, ended.ContainerID})
			}
		}
	}
	return killed
}
