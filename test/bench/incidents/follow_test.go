package main

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod that is missing in a later list went while nothing was seen. The same name with another UID is
// another pod.
func TestFollowedSeesWhatAListLacks(t *testing.T) {
	named := func(name, uid string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
	}
	var seen []string
	f := newFollowed(func(object any, removed bool) {
		pod, _ := object.(*corev1.Pod)
		text := string(pod.UID)
		if removed {
			text += " is gone"
		}
		seen = append(seen, text)
	})
	for _, err := range []error{
		f.Replace([]any{named("a", "1"), named("b", "2")}, "10"),
		f.Update(named("a", "1")),
		f.Delete(named("b", "2")),
		f.Replace([]any{named("a", "3")}, "20"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if want := []string{"1", "2", "1", "2 is gone", "3", "1 is gone"}; !slices.Equal(seen, want) {
		t.Errorf("seen %q, want %q", seen, want)
	}
	select {
	case <-f.listed:
	default:
		t.Error("the first list was not noticed")
	}
	if err := f.Add("no object"); err == nil {
		t.Error("what is no object is taken")
	}
}
