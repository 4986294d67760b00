//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evictd/evictd/test/internal/node"
)

// Evictd is killed when its victim has ended but the space is not reclaimed yet, as in the
// minute in which the kubelet has not removed the containers. Here the host has the victim's
// file open. The next process finds a full disk and a suitable pod, and waits for the space.
func TestKilledBetweenVictimsEndAndItsSpace(t *testing.T) {
	const otherMiB, missingMiB = 100, 50
	s := newDiskScene(t, node.DiskSpace, otherMiB+greedyMiB-missingMiB, "2s")
	other := s.wrote("other", fileOf("/data/fill", otherMiB))
	greedy := s.wrote("greedy", fileOf("/data/fill", greedyMiB))
	held := s.opened(greedy)
	if d := s.gone(&greedy.Pod); d.Verb != "Acted" || len(d.Attempts) != 1 {
		t.Errorf("the decision: %+v", d)
	}
	s.killEvictd()
	// As long as the kubelet takes to measure the other pod again.
	s.never(45*time.Second, "a second pod goes for the same space", func(ctx context.Context) bool {
		return s.count(ctx, "evictd_evictions_total", map[string]string{"outcome": "Evicted"}) > 0
	})
	if short := s.count(t.Context(), "evictd_pressure", map[string]string{"signal": node.DiskSpace, "kind": "Hard"}); short != 1 {
		t.Errorf("evictd_pressure = %v: the disk is not short any more, and the test shows nothing", short)
	}
	s.must(held.Close())
	s.calm(node.DiskSpace)
	s.stays(&other.Pod)
	if now := s.evicted(); now != 0 {
		t.Errorf("%v evictions since the start, want none", now)
	}
}

// opened opens the file that a pod has written. Its space is reclaimed only when it is
// closed.
func (s *scene) opened(w *writer) *os.File {
	s.Helper()
	path, err := live.Cluster.InNode(filepath.Join("/var/lib/kubelet/pods", string(w.UID), "volumes/kubernetes.io~empty-dir/data/fill"))
	s.must(err)
	file, err := os.Open(path)
	s.must(err)
	s.Cleanup(func() { _ = file.Close() }) // closed already, unless the test failed
	return file
}

// Evictd is killed while its victim ends slowly, and after the API server has refused to
// evict another pod. The victim ends as its grace period permits. The next process evicts no
// pod beside it, although there is one whose end would suffice too, does not retry the
// other pod within its back-off, and knows which owners lost a pod within the last hour.
func TestKilledInAMemoryIncident(t *testing.T) {
	on(t, oneDisk)
	s := emptyScene(t)
	// Evictions of earlier tests do not count, and the kubelet does not delay the restart of
	// a container that has not ended before.
	s.must(live.Renew(t.Context()))
	line, err := live.LineBelow(t.Context(), node.PodMemory, headroom)
	s.must(err)
	s.must(live.Configure(t.Context(), node.Policy{
		Signal: node.PodMemory, Line: line, Limits: "{evictionsPerMinute: 60, perOwnerPerHour: 1}",
		Extra: "protect: {podSelector: {matchLabels: {stays: \"yes\"}}}\n",
	}))
	// Two of these cause no pressure, three do, and then the end of any would suffice.
	const usesMiB, asksMiB, limitMiB, delay = 280, 30, 450, 12 * time.Second
	refused := s.deploy(node.Workload{Name: "refused", UsesMiB: usesMiB + 10, AsksMiB: 10, LimitMiB: limitMiB})
	s.twoBudgets("refused")
	beside := s.taker(node.Workload{Name: "beside", UsesMiB: usesMiB, AsksMiB: 130, LimitMiB: limitMiB})
	second := s.taker(node.Workload{Name: "second", UsesMiB: usesMiB, AsksMiB: asksMiB, LimitMiB: limitMiB})
	slow := s.taker(node.Workload{
		Name: "slow", UsesMiB: usesMiB, AsksMiB: asksMiB, LimitMiB: limitMiB, Flags: []string{"--term-delay=" + delay.String()},
	})
	s.takes(slow, "memory")
	s.takes(beside, "memory")
	s.until("slow is terminating", func(ctx context.Context) bool {
		pod, unread := live.Client.CoreV1().Pods(s.namespace).Get(ctx, slow.Name, metav1.GetOptions{})
		return unread == nil && pod.DeletionTimestamp != nil
	})
	s.killEvictd()
	s.ends(&slow.Pod)
	if now := s.evicted(); now != 0 {
		t.Errorf("%v evictions beside the victim", now)
	}
	s.stays(&beside.Pod)
	at := readJournal(s, filepath.Join(slow.control, "lines"))
	if took := at["exit"].Sub(at["term"]); took < delay {
		t.Errorf("the victim had %v for its end, want %v; the journal: %v", took, delay, at)
	}
	s.keepsBackOff(&refused)
	s.label(&beside.Pod, `"yes"`) // what follows is about the other pods

	s.takes(second, "memory")
	s.ends(&second.Pod)
	again := s.replacement(slow)
	held := s.held(t.Context(), node.PodMemory, "LimitReached")
	s.takes(again, "memory")
	s.until("evictd holds for the owner's limit", func(ctx context.Context) bool {
		return s.held(ctx, node.PodMemory, "LimitReached") > held
	})
	s.stays(&again.Pod)
	s.stays(&refused)
	s.stays(&beside.Pod)
	if now := s.evicted(); now != 1 {
		t.Errorf("%v evictions since the start, want that of second", now)
	}
	s.keepsBackOff(&refused)
}

// replacement waits for the pod that replaces an evicted one, which can then take its memory.
func (s *scene) replacement(of *taker) *taker {
	s.Helper()
	pod, err := live.Running(s.Context(), s.namespace, of.Labels["app"])
	s.must(err)
	s.must(os.Remove(filepath.Join(of.control, "lines"))) // of the first pod
	return &taker{Pod: pod, control: of.control}
}

// keepsBackOff fails the test where evictd has not tried to evict a pod with two budgets, or
// has tried again within a minute.
func (s *scene) keepsBackOff(pod *corev1.Pod) {
	s.Helper()
	tried := s.tried(pod)
	if len(tried) == 0 {
		s.Errorf("evictd has not tried to evict %s", pod.Name)
	}
	for i := 1; i < len(tried); i++ {
		if after := tried[i].Sub(tried[i-1]); after < time.Minute {
			s.Errorf("evictd tried to evict %s again after %v", pod.Name, after)
		}
	}
}

// twoBudgets gives a pod two budgets: the Eviction API always refuses it, and evictd backs
// off for a minute.
func (s *scene) twoBudgets(app string) {
	s.Helper()
	s.must(live.Budget(s.Context(), s.namespace, app, 1))
	minimum := intstr.FromInt32(1)
	_, err := live.Client.PolicyV1().PodDisruptionBudgets(s.namespace).Create(s.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app + "-too"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// tried returns when evictd has tried to evict the pod, oldest first.
func (s *scene) tried(pod *corev1.Pod) []time.Time {
	s.Helper()
	var tried []time.Time
	for line := range strings.Lines(s.audit(pod)) {
		if !strings.Contains(line, `"subresource":"eviction"`) || !strings.Contains(line, string(pod.UID)) {
			continue
		}
		var request struct {
			At time.Time `json:"requestReceivedTimestamp"`
		}
		s.must(json.Unmarshal([]byte(line), &request))
		tried = append(tried, request.At)
	}
	return tried
}

// ends waits until a pod has ended.
func (s *scene) ends(pod *corev1.Pod) {
	s.Helper()
	s.until(pod.Name+" has ended", func(ctx context.Context) bool {
		pods, err := live.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + pod.Labels["app"]})
		if err != nil {
			return false
		}
		for i := range pods.Items {
			if pods.Items[i].UID == pod.UID {
				return false
			}
		}
		return true
	})
}

// killEvictd ends evictd's process as a crash would, and waits for the next one.
func (s *scene) killEvictd() {
	s.Helper()
	s.must(live.Kill(s.Context()))
}
