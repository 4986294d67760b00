//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evictd/evictd/test/internal/node"
)

// A leaking pod has a long preStop hook, and leaks further while it terminates. It is the
// only victim: the hook and the handling of SIGTERM run to their end, its exit code is 0, and
// the pod beside it, which exceeds its request too, stays.
func TestPreStopAndGraceRunToTheirEnd(t *testing.T) {
	const preStop, grace, after = 25 * time.Second, 40 * time.Second, 2 * time.Second
	s := newScene(t, false, "")
	beside := s.deploy(node.Workload{Name: "beside", UsesMiB: 100, AsksMiB: 50})
	polite := s.taker(node.Workload{
		Name: "polite", UsesMiB: 2000, AsksMiB: 10,
		Flags: []string{"--term-delay=" + after.String(), "--memory-first=500Mi", "--memory-rate=20Mi"},
		Change: func(spec *corev1.PodSpec) {
			spec.TerminationGracePeriodSeconds = new(int64(grace.Seconds()))
			spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{
				Command: []string{"/workload", "--prestop-sleep=" + preStop.String(), "--log-file=/control/lines"},
			}}}
		},
	})
	evicted := s.evicted()
	last := s.lastOf(&polite.Pod)
	s.takes(polite, "first")
	s.gone(&polite.Pod)
	if code := exitCode(<-last); code != 0 {
		t.Errorf("the pod's exit code is %d, want 0", code)
	}
	at := readJournal(s, filepath.Join(polite.control, "lines"))
	for _, step := range []struct {
		from, to string
		atLeast  time.Duration
	}{{"prestop-start", "prestop-end", preStop}, {"prestop-end", "term", 0}, {"term", "exit", after}} {
		from, began := at[step.from]
		to, ended := at[step.to]
		if !began || !ended || to.Sub(from) < step.atLeast {
			t.Errorf("%s to %s: %v, want at least %v; the journal: %v", step.from, step.to, to.Sub(from), step.atLeast, at)
		}
	}
	s.stays(&beside)
	if now := s.evicted(); now != evicted+1 {
		t.Errorf("%v evictions, want one more than %v", now, evicted)
	}
}

// lastOf watches a pod, and sends what it was when it was deleted: its last status.
func (s *scene) lastOf(pod *corev1.Pod) <-chan *corev1.Pod {
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

// readJournal returns the times of the first pod's steps, without those of a replacement.
func readJournal(s *scene, path string) map[string]time.Time {
	s.Helper()
	text, err := os.ReadFile(path)
	s.must(err)
	at := map[string]time.Time{}
	for line := range strings.Lines(string(text)) {
		moment, word, _ := strings.Cut(strings.TrimSpace(line), " ")
		parsed, err := time.Parse(time.RFC3339Nano, moment)
		s.must(err)
		if _, seen := at[word]; !seen {
			at[word] = parsed
		}
	}
	return at
}
