package nodepods_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
)

// same fails when two pods differ, quantities by value.
func same(t *testing.T, want, got *corev1.Pod) {
	t.Helper()
	if !apiequality.Semantic.DeepEqual(want, got) {
		t.Errorf("the pod differs:\n%s", cmp.Diff(want.String(), got.String()))
	}
}

func owner(kind, name string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID("uid-of-" + name), Controller: &controller}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	priority, grace := int32(7), int64(90)
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "u1", CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{
				owner("Backup", "other", false), owner("ReplicaSet", "web", true),
			},
		},
		Spec:   corev1.PodSpec{Priority: &priority, TerminationGracePeriodSeconds: &grace},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	want := rank.Pod{
		Namespace: "shop", Name: "web-1", UID: "u1", Priority: 7, Created: created, GraceSeconds: 90,
		Owner: "ReplicaSet/web", OwnerUID: "uid-of-web", OwnerAPIVersion: "apps/v1", Labels: map[string]string{"app": "web"}, Ready: true,
	}
	if diff := cmp.Diff(want, nodepods.FromAPI(&pod).Facts(rank.Memory, nodepods.Self{}), cmpopts.IgnoreFields(rank.Pod{}, "LabelsHash")); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	bare := nodepods.FromAPI(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Backup", Name: "x"}}},
	}).Facts(rank.Memory, nodepods.Self{})
	if bare.Priority != 0 || bare.GraceSeconds != 30 || bare.Owner != "" {
		t.Errorf("a pod that says nothing: priority %d, grace %d, owner %q; want 0, 30, none",
			bare.Priority, bare.GraceSeconds, bare.Owner)
	}
}

// TestNothingProtectedIsACandidate is invariant 2 of the design, as far as the
// facts go: every marker alone protects.
func TestNothingProtectedIsACandidate(t *testing.T) {
	t.Parallel()
	annotated := func(key, value string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}}}
	}
	mirrorOf := func(source string) corev1.Pod {
		pod := annotated("kubernetes.io/config.source", source)
		pod.Annotations["kubernetes.io/config.mirror"] = "abc"
		return pod
	}
	now := metav1.Now()
	for name, test := range map[string]struct {
		pod  corev1.Pod
		self nodepods.Self
		want rank.Marks
	}{
		"nothing":                   {},
		"from the API server":       {pod: annotated("kubernetes.io/config.source", "api")},
		"static from a file":        {pod: mirrorOf("file"), want: rank.Marks{Mirror: true, Static: true}},
		"static from a URL":         {pod: mirrorOf("http"), want: rank.Marks{Mirror: true, Static: true}},
		"mirror of an API pod":      {pod: mirrorOf("api"), want: rank.Marks{Mirror: true}},
		"mirror":                    {pod: annotated("kubernetes.io/config.mirror", "abc"), want: rank.Marks{Mirror: true}},
		"mirror, empty value":       {pod: annotated("kubernetes.io/config.mirror", ""), want: rank.Marks{Mirror: true}},
		"another's annotation":      {pod: annotated("kubernetes.io/config.seen", "yesterday")},
		"unknown self is no pod":    {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}},
		"a Pending pod is a pod":    {pod: corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}},
		"a ReplicaSet protects not": {pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner("ReplicaSet", "a", true)}}}},
		"terminating": {
			pod:  corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}},
			want: rank.Marks{Terminating: true},
		},
		"succeeded": {pod: corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, want: rank.Marks{Finished: true}},
		"failed":    {pod: corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}, want: rank.Marks{Finished: true}},
		"of a DaemonSet": {
			pod:  corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner("DaemonSet", "a", true)}}},
			want: rank.Marks{DaemonSet: true},
		},
		"owned but not controlled by a DaemonSet": {
			pod: corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner("DaemonSet", "a", false)}}},
		},
		"evictd by UID": {
			pod:  corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "me"}},
			self: nodepods.Self{UID: "me"}, want: rank.Marks{Self: true},
		},
		"evictd by name": {
			pod:  corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "evictd", Name: "evictd-x", UID: "u"}},
			self: nodepods.Self{Namespace: "evictd", Name: "evictd-x"}, want: rank.Marks{Self: true},
		},
		"evictd's name in another namespace": {
			pod:  corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "evictd-x", UID: "u"}},
			self: nodepods.Self{Namespace: "evictd", Name: "evictd-x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts := nodepods.FromAPI(&test.pod).Facts(rank.Memory, test.self)
			if facts.Marks != test.want {
				t.Errorf("marks = %+v, want %+v", facts.Marks, test.want)
			}
			facts.Sampled = true
			rules := rank.Rules{DaemonSets: true}
			if protected := rules.Protects(&facts) != rank.NotProtected; protected != (test.want != rank.Marks{}) {
				t.Errorf("protected = %t with marks %+v", protected, facts.Marks)
			}
		})
	}
}

// What a tenant can write on a pod that runs does not make it a static pod or its
// mirror: the annotations that only mean something to the kubelet, and owners.
func TestForgedMarksDoNotProtect(t *testing.T) {
	t.Parallel()
	node := owner("Node", "node-1", true)
	node.APIVersion = "v1"
	for name, meta := range map[string]metav1.ObjectMeta{
		"source file":          {Annotations: map[string]string{"kubernetes.io/config.source": "file"}},
		"source http":          {Annotations: map[string]string{"kubernetes.io/config.source": "http"}},
		"source without value": {Annotations: map[string]string{"kubernetes.io/config.source": ""}},
		"source and hash":      {Annotations: map[string]string{"kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "abc"}},
		"the node as owner":    {OwnerReferences: []metav1.OwnerReference{node}},
		"the node as a second owner": {
			OwnerReferences: []metav1.OwnerReference{owner("ReplicaSet", "web", true), {APIVersion: "v1", Kind: "Node", Name: "node-1"}},
		},
		"the name of the mirror annotation as a label": {Labels: map[string]string{"kubernetes.io/config.mirror": "abc"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			meta.Namespace, meta.Name, meta.UID = "tenant", "web", "u"
			pod := corev1.Pod{ObjectMeta: meta}
			facts := nodepods.FromAPI(&pod).Facts(rank.Memory, nodepods.Self{UID: "other"})
			facts.Sampled = true
			var none rank.Rules // what the administrator's own rules protect is another matter
			if reason := none.Protects(&facts); reason != rank.NotProtected {
				t.Errorf("protected as %q", reason)
			}
			if got := nodepods.FromAPI(&pod).CgroupUID; got != "u" {
				t.Errorf("its usage is looked for under %q", got)
			}
		})
	}
}

// A Node starts nothing again: what it owns is as bare as a pod without an owner.
func TestPodOfANodeIsBare(t *testing.T) {
	t.Parallel()
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{owner("Node", "node-1", true)}}}
	facts := nodepods.FromAPI(&pod).Facts(rank.Memory, nodepods.Self{})
	facts.Sampled = true
	rules := rank.Rules{BarePods: true}
	if got := rules.Protects(&facts); got != rank.ProtectedNoController {
		t.Errorf("protected as %q, want %q", got, rank.ProtectedNoController)
	}
}

func TestCgroupUID(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"ordinary":                {want: "u"},
		"mirror":                  {annotations: map[string]string{"kubernetes.io/config.mirror": "h", "kubernetes.io/config.hash": "h"}, want: "h"},
		"mirror without a hash":   {annotations: map[string]string{"kubernetes.io/config.mirror": "h"}, want: "u"},
		"hash on an ordinary pod": {annotations: map[string]string{"kubernetes.io/config.hash": "h"}, want: "u"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Annotations: test.annotations}}
			if got := nodepods.FromAPI(&pod).CgroupUID; got != test.want {
				t.Errorf("cgroup UID = %q, want %q", got, test.want)
			}
		})
	}
}

func TestDiskVolumes(t *testing.T) {
	t.Parallel()
	pod := corev1.Pod{Spec: corev1.PodSpec{Volumes: volumes()}}
	want := []string{"scratch", "settings", "repo"}
	if diff := cmp.Diff(want, nodepods.FromAPI(&pod).DiskVolumes); diff != "" {
		t.Errorf("disk volumes (-want +got):\n%s", diff)
	}
}

func volumes() []corev1.Volume {
	v := func(name string, source corev1.VolumeSource) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: source}
	}
	return []corev1.Volume{
		v("scratch", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		v("shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}),
		v("settings", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}),
		v("repo", corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: "r"}}),
		v("key", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "tls-of-the-bank"}}),
		v("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var"}}),
		v("claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "p"}}),
	}
}

// Nothing but what runs is taken for a running container.
func TestRunningContainers(t *testing.T) {
	t.Parallel()
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	status := func(id string, state corev1.ContainerState) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{ContainerID: id, State: state}}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{
		ContainerStatuses: append(status("containerd://app", running),
			status("containerd://ended", corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}})...),
		InitContainerStatuses:      status("cri-o://sidecar", running),
		EphemeralContainerStatuses: append(status("docker://debug", running), status("", running)...),
	}}
	want := []string{"sidecar", "app", "debug"}
	if diff := cmp.Diff(want, nodepods.FromAPI(pod).RunningContainers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFaultNegativeGraceOfAPodIsOneSecond(t *testing.T) {
	t.Parallel()
	for given, want := range map[int64]int64{-13835058055: 1, -1: 1, 0: 0, 30: 30} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &given}}
		if got := nodepods.FromAPI(pod).Facts(rank.Memory, nodepods.Self{}).GraceSeconds; got != want {
			t.Errorf("grace period %d: %d s, want %d", given, got, want)
		}
	}
}
