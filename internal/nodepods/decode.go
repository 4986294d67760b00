package nodepods

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
)

// Decode returns the pod that a recorded text holds: a [Pod] as it is written, or the API
// server's, as kubectl prints it, which has metadata. Of the latter what evictd does not keep is
// dropped, and node is the node that it names; "" for the former. The function decodes a text
// into a value by the rules of the record that the pod is part of.
func Decode(text []byte, decode func(text []byte, into any) error) (pod *Pod, node string, err error) {
	var form struct {
		Metadata json.RawMessage `json:"metadata"`
	}
	if unread := json.Unmarshal(text, &form); unread != nil || form.Metadata == nil {
		pod = &Pod{}
		err = decode(text, pod)
		if pod.CgroupUID == "" {
			pod.CgroupUID = pod.UID
		}
		return pod, "", err
	}
	var object corev1.Pod
	if err = decode(text, &object); err != nil {
		return nil, "", err
	}
	return FromAPI(&object), object.Spec.NodeName, nil
}
