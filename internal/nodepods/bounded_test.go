package nodepods_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/evictd/evictd/internal/nodepods"
)

// many is a pod with 14,000 labels and these.
func many(name, role string) *corev1.Pod {
	pod := web(name)
	for i := range 14_000 {
		pod.Labels[fmt.Sprintf("l-%d", i)] = "x"
	}
	pod.Labels["role"] = role
	return pod
}

// What is kept of a pod does not grow with what a tenant writes into it: of 14,000 labels those that
// a selector names, and a hash of all.
func TestFaultLabelsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(many("a", "primary"), many("b", "primary"), many("c", "replica"))
		pods := start(t, fakeOf(client), nodepods.Options{LabelKeys: []string{"app", "absent"}})
		kept := func() map[string]*nodepods.Pod {
			all := map[string]*nodepods.Pod{}
			for _, pod := range pods.List() {
				all[pod.Name] = pod
			}
			return all
		}
		first := kept()
		if !maps.Equal(first["a"].Labels, map[string]string{"app": "web"}) {
			t.Errorf("%d labels are kept, want app alone", len(first["a"].Labels))
		}
		if a, b, c := first["a"].LabelsHash, first["b"].LabelsHash, first["c"].LabelsHash; a != b || a == c {
			t.Errorf("hashes %d, %d, %d: want the same for the same labels", a, b, c)
		}
		pods.KeepLabels([]string{"app"}) // nothing new
		if !pods.Synced() {
			t.Error("fewer keys need no other list")
		}
		// A selector that an edit of the configuration brings needs labels that were not kept.
		pods.KeepLabels([]string{"role"})
		synctest.Wait()
		if got := kept()["c"].Labels; !pods.Synced() || !maps.Equal(got, map[string]string{"role": "replica"}) {
			t.Errorf("labels %v", got)
		}
	})
}

func TestFaultNamesAreBounded(t *testing.T) {
	t.Parallel()
	pod, long := web("a"), strings.Repeat("x", 100_000)
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", APIVersion: long, Name: long, UID: types.UID(long), Controller: &yes}}
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x", "kubernetes.io/config.hash": long}
	for i := range 20_000 {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: strconv.Itoa(i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	got := nodepods.FromAPI(pod)
	if len(got.DiskVolumes) != 256 || len(got.Owner)+len(got.OwnerUID)+len(got.CgroupUID) > 2000 {
		t.Errorf("%d volumes; owner of %d bytes, %d; cgroup %d", len(got.DiskVolumes),
			len(got.Owner), len(got.OwnerUID), len(got.CgroupUID))
	}
}

// streaming is an API server that streams its one pod.
type streaming struct{}

func (streaming) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return nil, errors.New("it streams")
}

func (streaming) Watch(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	sent := watch.NewFakeWithChanSize(2, false)
	if options.SendInitialEvents != nil {
		sent.Add(many("web", "primary"))
		sent.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}
	return sent, nil
}
