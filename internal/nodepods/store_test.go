package nodepods

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Each kill is told once: not again when the container starts, nor by a new list after the
// watch broke, and not one from before the first list.
func TestOOMKillsAreToldOnce(t *testing.T) {
	t.Parallel()
	const at = 1000
	ended := func(second int64) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reasonOOMKilled, ContainerID: fmt.Sprintf("containerd://%d", second),
		}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	pod := func(uid string, last, state corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "greedy", UID: types.UID(uid)},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", LastTerminationState: last, State: state}}},
		}
	}
	none := corev1.ContainerState{}
	var told []int64
	s := New(nil, Options{Now: time.Now, OnOOMKilled: func(p *Pod, k OOMKilled) {
		if p.Key() != "shop/greedy" || k.Container != "main" {
			t.Errorf("told of %s, %s", p.Key(), k.Container)
		}
		var second int64
		if _, err := fmt.Sscanf(k.ID, "containerd://%d", &second); err != nil {
			t.Errorf("told of %q", k.ID)
		}
		told = append(told, second)
	}}).store.Load()
	for _, step := range []struct {
		name   string
		apply  func(s *store) error
		killed []int64
	}{
		{"the first list", func(s *store) error { return s.Replace([]any{pod("1", none, ended(at))}, "") }, nil},
		{"it starts again", func(s *store) error { return s.Update(pod("1", ended(at), running)) }, nil},
		{"it is killed", func(s *store) error { return s.Update(pod("1", ended(at), ended(at+1))) }, []int64{at + 1}},
		{"the same again", func(s *store) error { return s.Update(pod("1", ended(at), ended(at+1))) }, nil},
		{"it starts again", func(s *store) error { return s.Update(pod("1", ended(at+1), running)) }, nil},
		{"a list with what was known", func(s *store) error { return s.Replace([]any{pod("1", ended(at+1), running)}, "") }, nil},
		{"a list with two that were missed", func(s *store) error { return s.Replace([]any{pod("1", ended(at+2), ended(at+3))}, "") }, []int64{at + 2, at + 3}},
		{"its limit is raised", func(s *store) error {
			raised := pod("1", ended(at+2), ended(at+3))
			raised.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
			}}}
			return s.Update(raised)
		}, nil},
		{"another pod of that name", func(s *store) error { return s.Update(pod("2", none, ended(at+3))) }, []int64{at + 3}},
		{"it goes", func(s *store) error { return s.Delete(pod("2", none, ended(at+3))) }, nil},
		{"a new one", func(s *store) error { return s.Add(pod("3", none, ended(at+4))) }, []int64{at + 4}},
	} {
		told = nil
		if err := step.apply(s); err != nil || !slices.Equal(told, step.killed) {
			t.Errorf("%s: told of %v, %v; want %v", step.name, told, err, step.killed)
		}
	}
}

// evictd's own pod is the one with its UID, and no other where it does not know that.
func TestEvictdsOwnPodIsKnownByItsUID(t *testing.T) {
	t.Parallel()
	for _, self := range []string{"me", ""} {
		s := New(nil, Options{Self: self, Now: time.Now}).store.Load()
		for _, uid := range []string{"me", "other"} {
			pod, err := s.keep(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "evictd", Name: "evictd-x", UID: types.UID(uid)}})
			if err != nil || pod.Self != (uid == self) {
				t.Errorf("of %q, %s: %v, %v", self, uid, pod.Self, err)
			}
		}
	}
}
