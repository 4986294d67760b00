package nodepods_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/evictd/evictd/internal/nodepods"
)

// What is kept of a pod does not grow with what a tenant writes into it: of 14,000 labels those that
// a selector names, and a hash of all.
func TestFaultLabelsAreBounded(t *testing.T) {
	t.Parallel()
	many := func(name, last string) *corev1.Pod {
		pod := fullPod(name)
		pod.UID = types.UID(name)
		for i := range 14_000 {
			pod.Labels[fmt.Sprintf("l-%d", i)] = "x"
		}
		pod.Labels["role"] = last
		return pod
	}
	client := fake.NewClientset(many("a", "primary"), many("b", "primary"), many("c", "replica"))
	pods := start(t, client, nodepods.Options{NodeName: "node-1", Now: time.Now, LabelKeys: []string{"app", "absent"}})
	get := func(name string) *nodepods.Pod { t.Helper(); return named(t, pods, name) }
	eventually(t, "the pods are there", pods.Synced)
	a, b, c := get("a"), get("b"), get("c")
	if !maps.Equal(a.Labels, map[string]string{"app": "web"}) {
		t.Errorf("%d labels are kept, want app alone", len(a.Labels))
	}
	if a.LabelsHash != b.LabelsHash || a.LabelsHash == c.LabelsHash {
		t.Errorf("hashes %d, %d, %d: want the same for the same labels", a.LabelsHash, b.LabelsHash, c.LabelsHash)
	}
	pods.KeepLabels([]string{"app"}) // nothing new
	if !pods.Synced() {
		t.Error("fewer keys need no other list")
	}
	// A selector that an edit of the configuration brings needs labels that were not kept.
	pods.KeepLabels([]string{"role"})
	eventually(t, "the pods are listed again", pods.Synced)
	if got := get("c").Labels; !maps.Equal(got, map[string]string{"role": "replica"}) {
		t.Errorf("labels %v", got)
	}
}

func TestFaultNamesAreBounded(t *testing.T) {
	t.Parallel()
	pod, long := fullPod("a"), strings.Repeat("x", 100_000)
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

// streaming is an API server that streams its pods, each made when it is sent.
type streaming struct{ pods int }

func (s streaming) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return nil, errors.New("it streams")
}

func (s streaming) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	sent := watch.NewFake()
	go func() {
		if options.SendInitialEvents == nil {
			return
		}
		for i := range s.pods {
			pod := fullPod(fmt.Sprint(i))
			pod.UID = types.UID(pod.Name)
			for j := range 14_000 {
				pod.Labels[fmt.Sprintf("%055d.%07d", i, j)] = fmt.Sprintf("%063d", j)
			}
			sent.Add(pod)
		}
		sent.Action(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "9", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
	}()
	return sent, nil
}

// BenchmarkPodsOfManyLabels prints what 40 pods of 14,000 labels of 126 bytes take: the most memory
// that the process had, and what is left on the heap.
func BenchmarkPodsOfManyLabels(b *testing.B) {
	for range b.N {
		pods := nodepods.New(streaming{40}, nodepods.Options{NodeName: "node-1", Now: time.Now, LabelKeys: []string{"app"}, OnError: func(error) {}})
		ctx, cancel := context.WithCancel(b.Context())
		done := make(chan error, 1)
		go func() { done <- pods.Run(ctx) }()
		for !pods.Synced() {
			time.Sleep(time.Millisecond)
		}
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			b.Fatal(err)
		}
		peak, err := strconv.Atoi(regexp.MustCompile(`VmHWM:\s+(\d+)`).FindStringSubmatch(string(text))[1])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(peak)/1024, "MiB-RSS-at-most")
		b.ReportMetric(float64(memory.HeapAlloc)/(1<<20), "MiB-heap")
		b.ReportMetric(float64(len(pods.List())), "pods")
		cancel()
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
}
