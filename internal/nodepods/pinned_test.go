package nodepods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written returns the managed fields of one writer.
func written(subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: "writer", Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	const creator = `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}},"f:nodeName":{}}}`
	entries := map[string][]metav1.ManagedFieldsEntry{
		"not known":                     nil,
		"cleared":                       {{}},
		"pinned, beside others":         {written("", `{"f:metadata":{}}`), written("status", `{"f:status":{}}`), written("", creator)},
		"a subresource":                 {written("status", creator)},
		"a writer without a field list": {{Manager: "writer"}},
		"pinned, nothing but the name":  {{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:nodeName":{}}}`)}},
	}
	for name, fields := range map[string]string{
		"pinned, any creator":      creator,
		"a label of that name":     `{"f:metadata":{"f:labels":{"f:nodeName":{}}},"f:spec":{"f:containers":{}}}`,
		"deeper in the spec":       `{"f:spec":{"f:nodeSelector":{"f:nodeName":{}}}}`,
		"not in the spec":          `{"f:nodeName":{},"f:spec":{}}`,
		"a container of that name": `{"f:spec":{"f:containers":{"k:{\"name\":\"f:nodeName\"}":{}}}}`,
		"a longer name":            `{"f:spec":{"f:nodeNames":{}}}`,
		"other case":               `{"f:Spec":{"f:nodeName":{}}}`,
		"what cannot be parsed":    `{"f:spec":{"f:nodeName":{}`,
		"a spec that is no object": `{"f:spec":["f:nodeName"]}`,
		"nothing but the words":    `"f:nodeName"`,
	} {
		entries[name] = []metav1.ManagedFieldsEntry{written("", fields)}
	}
	for name, managed := range entries {
		isController := true
		whole := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ManagedFields:   managed,
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: &isController}},
		}}
		if got := FromAPI(whole).Pinned; got != strings.HasPrefix(name, "pinned") {
			t.Errorf("%s: pinned %t", name, got)
		}
		whole.OwnerReferences = nil // without a controller it is bare: nothing makes it again
		if FromAPI(whole).Pinned {
			t.Errorf("%s: a bare pod counts as pinned", name)
		}
	}
}
