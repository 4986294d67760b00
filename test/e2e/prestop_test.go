//go:build e2e || e2e_all

package e2e

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evictd/evictd/test/internal/node"
)

// A leaking pod has a preStop hook, and leaks further while it terminates. It is the only victim: the
// hook and the handling of SIGTERM run to their end, its exit code is 0, and the pod beside it, which
// exceeds its request too and whose end would suffice, stays.
func TestPreStopAndGraceRunToTheirEnd(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	s.patientThreshold()
	// When the threshold is met, the polite pod exceeds its request by more, however soon that is seen.
	beside := deployWorker(s, node.Workload{Name: "beside", UsesMiB: 300, AsksMiB: 200})
	polite := deployWorker(s, node.Workload{
		Name: "polite", UsesMiB: 550, AsksMiB: 10,
		Flags: []string{endsAtBarrier, moreAtBarrier, "--memory-first=450Mi"},
		Change: func(spec *corev1.PodSpec) {
			spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
				Command: []string{"/workload", hookBarrier, logFlag},
			}}}
		},
	})
	last := lastOf(s, &polite.Pod)
	beside.works()
	polite.works()
	polite.logs("prestop-start")
	polite.more().Open(t)
	polite.logs("memory")
	s.ticks() // the victim has leaked in its hook
	polite.hook().Open(t)
	polite.logs("term")
	s.ticks() // it has its SIGTERM
	polite.end().Open(t)
	s.ends(&polite.Pod)
	if code := exitCode(<-last); code != 0 {
		t.Errorf("the pod's exit code is %d, want 0", code)
	}
	steps := slices.DeleteFunc(polite.steps(), func(word string) bool { return slices.Contains([]string{"start", "begin", "first"}, word) })
	if want := []string{"prestop-start", "memory", "prestop-end", "term", "exit"}; !slices.Equal(steps, want) {
		t.Errorf("the pod's steps were %q, want %q", steps, want)
	}
	s.wantVictims(&polite.Pod)
	s.stays(&beside.Pod)
}

// lastOf watches a pod, and sends what it was when it was deleted: its last status. The channel is
// closed when the watch ends.
func lastOf(s *scene, pod *corev1.Pod) <-chan *corev1.Pod {
	s.Helper()
	events, err := live.Client.CoreV1().Pods(pod.Namespace).Watch(s.Context(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, pod.Name).String(), ResourceVersion: pod.ResourceVersion,
	})
	s.must(err)
	last := make(chan *corev1.Pod, 1)
	go func() {
		defer events.Stop()
		defer close(last)
		for e := range events.ResultChan() {
			if pod, is := e.Object.(*corev1.Pod); is && e.Type == watch.Deleted {
				last <- pod
				return
			}
		}
	}()
	return last
}

// exitCode returns that of a pod's first container; -1 when its status does not have one.
func exitCode(pod *corev1.Pod) int32 {
	if pod == nil || len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].State.Terminated == nil {
		return -1
	}
	return pod.Status.ContainerStatuses[0].State.Terminated.ExitCode
}
