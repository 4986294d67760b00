package nodepods_test

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/rank"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// list makes a resource list of name, quantity pairs.
func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func container(name string, requests corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: requests}}
}

func sidecar(name string, requests corev1.ResourceList) corev1.Container {
	c := container(name, requests)
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

func TestRequest(t *testing.T) {
	t.Parallel()
	memory := func(q string) corev1.ResourceList { return list("memory", q) }
	for name, test := range map[string]struct {
		pod          corev1.Pod
		memory, disk int64
	}{
		"nothing requested": {pod: corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{container("a", nil)},
		}}},
		"containers add up": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", list("memory", "100Mi", "ephemeral-storage", "1Gi", "cpu", "3")),
				container("b", list("memory", "50Mi")),
			}}},
			memory: 150 * mi, disk: gi,
		},
		"an init container that needs more": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers:     []corev1.Container{container("a", memory("100Mi"))},
				InitContainers: []corev1.Container{container("i", memory("300Mi")), container("j", memory("200Mi"))},
			}},
			memory: 300 * mi,
		},
		"an init container that needs less": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers:     []corev1.Container{container("a", memory("100Mi"))},
				InitContainers: []corev1.Container{container("i", memory("30Mi"))},
			}},
			memory: 100 * mi,
		},
		"a sidecar counts with the containers": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers:     []corev1.Container{container("a", memory("100Mi"))},
				InitContainers: []corev1.Container{sidecar("s", memory("20Mi"))},
			}},
			memory: 120 * mi,
		},
		"an init container after a sidecar has it beside it": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("a", memory("10Mi"))},
				InitContainers: []corev1.Container{
					container("i", memory("140Mi")), sidecar("s", memory("100Mi")),
					container("j", memory("50Mi")), sidecar("z", memory("5Mi")),
				},
			}},
			memory: 150 * mi,
		},
		"overhead on top of a request": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("a", memory("100Mi"))},
				Overhead:   list("memory", "7Mi", "ephemeral-storage", "9Mi"),
			}},
			memory: 107 * mi, disk: 0,
		},
		"pod level replaces the containers for every resource": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("a", list("memory", "100Mi", "ephemeral-storage", "1Gi"))},
				Resources:  &corev1.ResourceRequirements{Requests: memory("30Mi")},
				Overhead:   memory("1Mi"),
			}},
			memory: 31 * mi, disk: 0,
		},
		"pod level with cpu alone leaves no memory request": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("a", memory("100Mi"))},
				Resources:  &corev1.ResourceRequirements{Requests: list("cpu", "1")},
			}},
		},
		"pod-level limits replace the containers too": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("a", memory("100Mi"))},
				Resources:  &corev1.ResourceRequirements{Limits: list("hugepages-2Mi", "2Mi")},
			}},
		},
		"pod level with an unsupported name is not pod level": {
			pod: corev1.Pod{Spec: corev1.PodSpec{
				Containers: []corev1.Container{container("a", memory("100Mi"))},
				Resources:  &corev1.ResourceRequirements{Requests: list("ephemeral-storage", "1Gi")},
			}},
			memory: 100 * mi,
		},
		"the pod level that is allocated, without the overhead in it": {
			pod: corev1.Pod{
				Spec: corev1.PodSpec{
					Resources: &corev1.ResourceRequirements{Requests: memory("80Mi")},
					Overhead:  memory("5Mi"),
				},
				Status: corev1.PodStatus{AllocatedResources: memory("45Mi")},
			},
			memory: 45 * mi,
		},
		"what is allocated, not what a resize requests": {
			pod: corev1.Pod{
				Spec: corev1.PodSpec{
					Containers:     []corev1.Container{container("a", list("memory", "900Mi", "ephemeral-storage", "3Mi")), container("b", memory("1Mi"))},
					InitContainers: []corev1.Container{sidecar("s", memory("500Mi"))},
				},
				Status: corev1.PodStatus{
					ContainerStatuses: []corev1.ContainerStatus{
						{Name: "b"},
						{
							Name: "a", AllocatedResources: memory("100Mi"),
							Resources: &corev1.ResourceRequirements{Requests: memory("77Mi")},
						},
					},
					InitContainerStatuses: []corev1.ContainerStatus{{Name: "s", AllocatedResources: memory("50Mi")}},
				},
			},
			memory: 151 * mi, disk: 3 * mi,
		},
		"what resources show where nothing is shown as allocated": {
			pod: corev1.Pod{
				Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", memory("900Mi")), container("b", memory("1Mi"))}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
					{Name: "a", Resources: &corev1.ResourceRequirements{Requests: memory("60Mi")}},
					{Name: "b", Resources: &corev1.ResourceRequirements{}},
				}},
			},
			memory: 60 * mi,
		},
		"more than an int64 holds": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", memory("9223372036854775807")), container("b", memory("1")),
			}}},
			memory: math.MaxInt64,
		},
		"a fraction of a byte is rounded up, once": {
			pod: corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
				container("a", memory("500m")), container("b", memory("600m")),
			}}},
			memory: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.pod.DeepCopy()
			for resource, want := range map[rank.Resource]int64{
				rank.Memory: test.memory, rank.Disk: test.disk, rank.Inodes: 0, rank.PIDs: 0,
			} {
				for range 2 { // twice: sums must not leak into the pod's quantities
					if got := nodepods.FromAPI(&test.pod).Facts(resource, nodepods.Self{}).Request; got != want {
						t.Errorf("request for %s = %d, want %d", resource, got, want)
					}
				}
			}
			same(t, before, &test.pod)
		})
	}
}
