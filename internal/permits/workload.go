package permits

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
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

// leaseName returns the name of the Lease of a workload's permit.
func leaseName(workload string, permit int) string {
	return "evictd-permit-" + hashOf(workload) + "-" + strconv.Itoa(permit)
}

// hashOf stands for a workload in names and labels, for which its own name may be too
// long, and it holds a slash.
func hashOf(workload string) string {
	const enough = 16 // bytes: no two workloads have the same hash
	sum := sha256.Sum256([]byte(workload))
	return hex.EncodeToString(sum[:enough])
}
