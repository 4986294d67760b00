package plugin

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func shipped() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "evictd", Name: "evictd-abc", CreationTimestamp: metav1.Unix(100, 0),
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "evictd", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "worker-1",
			Containers: []corev1.Container{{Name: "proxy"}, {
				Name: "evictd", Args: []string{"run", "--config=/etc/evictd/evictd.yaml", "--log-level", "debug", "--host-root", "/host", "--state-dir=/var/lib/evictd", "--new-flag=x"},
				Ports: []corev1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "metrics", ContainerPort: 9999}},
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

// A command in the pod looks where `evictd run` looks, at that node, and takes no other flag of it.
func TestWhereThingsAre(t *testing.T) {
	t.Parallel()
	a := newAgent(shipped())
	if a.port != 9999 || a.binary != "/evictd" || a.container != "evictd" || a.name() != "evictd/evictd-abc" {
		t.Errorf("the agent is %+v", a)
	}
	for want, flags := range map[string][]string{
		"--node-name=worker-1 --config=/etc/evictd/evictd.yaml --host-root=/host --state-dir=/var/lib/evictd": whereDoctorLooks(),
	} {
		if got := strings.Join(whereThingsAre(&a, flags), " "); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	pod := shipped()
	pod.Spec.Containers[1].Command = []string{"/bin/evictd", "run"}
	if b := newAgent(pod); b.binary != "/bin/evictd" || len(b.args) != len(a.args)+1 {
		t.Errorf("with a command the agent is %+v", b)
	}
	pod.Spec.Containers = pod.Spec.Containers[:1]
	if b := newAgent(pod); b.port != 9464 || b.binary != "/evictd" {
		t.Errorf("without a container evictd the agent is %+v", b)
	}
}

func TestStoppedBy(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*corev1.Pod){
		"": func(*corev1.Pod) {},
		"CrashLoopBackOff": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "proxy", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "Other"}}},
				{Name: "evictd", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			}
		},
		"its container ended: OOMKilled, exit code 137": func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "evictd", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}},
			}
		},
		"it is Pending": func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
		"it is not scheduled: 0/3 nodes are available": func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodPending
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/3 nodes are available"}}
		},
	} {
		pod := shipped()
		change(pod)
		if got := stoppedBy(pod); got != want {
			t.Errorf("stopped by %q, want %q", got, want)
		}
	}
}

// During a rollout a node has two pods: the one that stays is asked. A pod that waits for its node
// is named by the node that the DaemonSet made it for.
func TestPodsOfOneNode(t *testing.T) {
	t.Parallel()
	leaving, older, newer := shipped(), shipped(), shipped()
	leaving.Name, leaving.CreationTimestamp, leaving.DeletionTimestamp = "leaving", metav1.Unix(300, 0), &metav1.Time{Time: time.Unix(301, 0)}
	older.Name = "older"
	newer.Name, newer.CreationTimestamp = "newer", metav1.Unix(200, 0)
	pods := []*corev1.Pod{leaving, older, newer}
	slices.SortFunc(pods, newerFirst)
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	if diff := cmp.Diff([]string{"newer", "older", "leaving"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	waiting := shipped()
	waiting.Spec.NodeName = ""
	if got := nodeOf(waiting); got != "" {
		t.Errorf("a pod without affinity is of node %q", got)
	}
	waiting.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Values: []string{"worker-9"}}}}},
	}}}
	if got := nodeOf(waiting); got != "worker-9" {
		t.Errorf("the waiting pod is of node %q", got)
	}
}

func TestOfDaemonSet(t *testing.T) {
	t.Parallel()
	job := shipped()
	job.OwnerReferences[0].Kind = "Job"
	bare := shipped()
	bare.OwnerReferences = nil
	if !ofDaemonSet(shipped()) || ofDaemonSet(job) || ofDaemonSet(bare) {
		t.Error("only the DaemonSet's pods are agents")
	}
}
