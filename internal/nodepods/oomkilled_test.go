package nodepods_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/nodepods"
)

// Every end by the kernel that a status keeps is told, and no other.
func TestOOMKilledIn(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC)
	ended := func(reason, id string, after time.Duration) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: reason, ExitCode: 137, ContainerID: id, FinishedAt: metav1.NewTime(at.Add(after)),
		}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	got := nodepods.FromAPI(&corev1.Pod{Status: corev1.PodStatus{
		InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: ended("OOMKilled", "a", 0)}},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "twice", LastTerminationState: ended("OOMKilled", "b", time.Second), State: ended("OOMKilled", "c", 2*time.Second)},
			{Name: "restarted", LastTerminationState: ended("OOMKilled", "d", 3*time.Second), State: running},
			{Name: "failed", LastTerminationState: ended("Completed", "e", 0), State: ended("Error", "f", 0)},
			{Name: "waiting", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "OOMKilled"}}},
		},
		EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "shell", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled"}}}},
	}}).OOMKilled
	want := []nodepods.OOMKilled{
		{Container: "init", ID: "a", Finished: at},
		{Container: "twice", ID: "b", Finished: at.Add(time.Second)},
		{Container: "twice", ID: "c", Finished: at.Add(2 * time.Second)},
		{Container: "restarted", ID: "d", Finished: at.Add(3 * time.Second)},
		{Container: "shell"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v; want %+v", got, want)
	}
	if got := nodepods.FromAPI(&corev1.Pod{}).OOMKilled; got != nil {
		t.Errorf("an empty status: %+v", got)
	}
}
