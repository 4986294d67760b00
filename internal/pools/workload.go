package pools

import (
	"strings"

	"github.com/evictd/evictd/pkg/rank"
)

// podTemplateHash is the label by which a Deployment distinguishes its ReplicaSets. Package
// k8s.io/api/apps/v1, which has it as DefaultDeploymentUniqueLabelKey, would link all types of its
// group.
const podTemplateHash = "pod-template-hash"

// WorkloadOf returns the workload of a pod, for example "shop/Deployment/web": the
// topmost owner that can be told from the pod alone. "" is a pod without a controller,
// which has no other pods.
//
// A ReplicaSet whose name ends in the pod's own pod-template-hash was made by a
// Deployment: both come from its controller (k8s.io/kubernetes
// pkg/controller/deployment/sync.go, getNewReplicaSet). So the old and the new pods of a
// rollout share their permits.
func WorkloadOf(pod *rank.Pod) string {
	if pod.Owner == "" {
		return ""
	}
	owner := pod.Owner
	hash := pod.Labels[podTemplateHash]
	if set, is := strings.CutPrefix(owner, "ReplicaSet/"); is && hash != "" {
		if name, made := strings.CutSuffix(set, "-"+hash); made && name != "" {
			owner = "Deployment/" + name
		}
	}
	return pod.Namespace + "/" + owner
}
