package nodepods

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

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
	for i := range pod.ManagedFields {
		entry := &pod.ManagedFields[i]
		if entry.Subresource == "" && entry.FieldsV1 != nil && hasNodeName(entry.FieldsV1.GetRawBytes()) {
			return true
		}
	}
	return false
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
