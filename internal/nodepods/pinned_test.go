package nodepods

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// written returns the managed fields of one writer.
func written(subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: "writer", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
		FieldsType: "FieldsV1", Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func TestPinned(t *testing.T) {
	t.Parallel()
	const creator = `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}},"f:nodeName":{}}}`
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    bool
	}{
		"not known":                     {nil, false},
		"cleared":                       {[]metav1.ManagedFieldsEntry{{}}, false},
		"any creator":                   {[]metav1.ManagedFieldsEntry{written("", creator)}, true},
		"beside others":                 {[]metav1.ManagedFieldsEntry{written("", `{"f:metadata":{}}`), written("status", `{"f:status":{}}`), written("", creator)}, true},
		"a subresource":                 {[]metav1.ManagedFieldsEntry{written("status", creator)}, false},
		"a label of that name":          {[]metav1.ManagedFieldsEntry{written("", `{"f:metadata":{"f:labels":{"f:nodeName":{}}},"f:spec":{"f:containers":{}}}`)}, false},
		"deeper in the spec":            {[]metav1.ManagedFieldsEntry{written("", `{"f:spec":{"f:nodeSelector":{"f:nodeName":{}}}}`)}, false},
		"not in the spec":               {[]metav1.ManagedFieldsEntry{written("", `{"f:nodeName":{},"f:spec":{}}`)}, false},
		"a container of that name":      {[]metav1.ManagedFieldsEntry{written("", `{"f:spec":{"f:containers":{"k:{\"name\":\"f:nodeName\"}":{}}}}`)}, false},
		"a longer name":                 {[]metav1.ManagedFieldsEntry{written("", `{"f:spec":{"f:nodeNames":{}}}`)}, false},
		"other case":                    {[]metav1.ManagedFieldsEntry{written("", `{"f:Spec":{"f:nodeName":{}}}`)}, false},
		"what cannot be parsed":         {[]metav1.ManagedFieldsEntry{written("", `{"f:spec":{"f:nodeName":{}`)}, false},
		"a spec that is no object":      {[]metav1.ManagedFieldsEntry{written("", `{"f:spec":["f:nodeName"]}`)}, false},
		"nothing but the words":         {[]metav1.ManagedFieldsEntry{written("", `"f:nodeName"`)}, false},
		"nothing but the name":          {[]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:nodeName":{}}}`)}}, true},
		"a writer without a field list": {[]metav1.ManagedFieldsEntry{{Manager: "writer"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isController := true
			whole := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				ManagedFields:   test.entries,
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: &isController}},
			}}
			if got := FromAPI(whole).Pinned; got != test.want {
				t.Errorf("pinned %t, want %t", got, test.want)
			}
			whole.OwnerReferences = nil // without a controller it is bare: nothing makes it again
			if FromAPI(whole).Pinned {
				t.Error("a bare pod counts as pinned")
			}
		})
	}
}

// BenchmarkFromAPI converts the pod of one event, with managed fields as those of a
// Deployment's pod of so many containers with ten variables each: what the creator and
// the kubelet wrote.
func BenchmarkFromAPI(b *testing.B) {
	for _, test := range []struct {
		name string
		pin  string
	}{{"scheduled", ""}, {"pinned", `"f:nodeName":{},`}} {
		b.Run(test.name, func(b *testing.B) {
			var containers strings.Builder
			for i := range 3 {
				fmt.Fprintf(&containers, `"k:{\"name\":\"c%d\"}":{".":{},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:env":{".":{}`, i)
				for j := range 10 {
					fmt.Fprintf(&containers, `,"k:{\"name\":\"VARIABLE_%d\"}":{".":{},"f:name":{},"f:value":{}}`, j)
				}
				containers.WriteString(`},"f:resources":{".":{},"f:requests":{".":{},"f:memory":{}}}},`)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{
				written("", `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{`+strings.TrimSuffix(containers.String(), ",")+`},`+test.pin+`"f:restartPolicy":{}}}`),
				written("status", `{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}},"f:phase":{}}}`),
			}}}
			if isPinned(pod) != (test.pin != "") {
				b.Fatal("the pod is not what it should be")
			}
			b.ReportAllocs()
			for b.Loop() {
				FromAPI(pod)
			}
		})
	}
}
