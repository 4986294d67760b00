package nodepods

import (
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// entry is a pod on its way through client-go's reflector, which holds a whole list before the store
// gets it: the API server's object ends where it is received. A tenant's pod may have more than a
// MiB of labels, and as much of managed fields.
type entry struct {
	metav1.TypeMeta
	metav1.ObjectMeta // of which the reflector reads some

	pod  *Pod
	kept *labelKeys // by which its labels were chosen
}

// DeepCopyObject returns the entry: it is not changed.
func (e *entry) DeepCopyObject() runtime.Object { return e }

// entries are a list.
type entries struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []entry
}

// DeepCopyObject returns the list: it is not changed.
func (e *entries) DeepCopyObject() runtime.Object { return e }

// labelKeys are the keys of the labels that are kept; nil keeps all.
type labelKeys struct{ set map[string]bool }

// keysOf returns nil for nil.
func keysOf(keys []string) *labelKeys {
	if keys == nil {
		return nil
	}
	k := &labelKeys{set: make(map[string]bool, len(keys))}
	for _, key := range keys {
		k.set[key] = true
	}
	return k
}

// enter makes an entry of a pod that was received.
func (k *labelKeys) enter(pod *corev1.Pod) entry {
	kept := FromAPI(pod)
	if k != nil {
		kept.Labels = map[string]string{}
		for key := range k.set {
			if value, has := pod.Labels[key]; has {
				kept.Labels[key] = value
			}
		}
	}
	e := entry{pod: kept, kept: k}
	e.Namespace, e.Name, e.UID, e.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
	if end, ends := pod.Annotations[metav1.InitialEventsAnnotationKey]; ends {
		e.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: end}
	}
	return e
}

// labelsSeed makes it impossible to find two sets of labels with one hash.
var labelsSeed = maphash.MakeSeed() //nolint:gochecknoglobals // of this process

// hashOfLabels returns the same for the same labels, in this process.
func hashOfLabels(labels map[string]string) (hash uint64) {
	for key, value := range labels {
		hash += maphash.Comparable(labelsSeed, [2]string{key, value})
	}
	return hash
}
