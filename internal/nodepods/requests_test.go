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

// pod returns one with containers and init containers.
func pod(containers []corev1.Container, inits ...corev1.Container) corev1.Pod {
	return corev1.Pod{Spec: corev1.PodSpec{Containers: containers, InitContainers: inits}}
}

func containers(all ...corev1.Container) []corev1.Container { return all }

// podLevel sets requests of a pod's own, and what comes on top of them.
func podLevel(pod corev1.Pod, own *corev1.ResourceRequirements, overhead corev1.ResourceList) corev1.Pod {
	pod.Spec.Resources, pod.Spec.Overhead = own, overhead
	return pod
}

// shows sets what a status shows of the containers, the init containers and the pod.
func shows(pod corev1.Pod, status corev1.PodStatus) corev1.Pod {
	pod.Status = status
	return pod
}

func TestRequest(t *testing.T) {
	t.Parallel()
	memory := func(q string) corev1.ResourceList { return list("memory", q) }
	requests := func(l corev1.ResourceList) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Requests: l}
	}
	a := func() []corev1.Container { return containers(container("a", memory("100Mi"))) }
	for name, test := range map[string]struct {
		pod          corev1.Pod
		memory, disk int64
	}{
		"nothing requested": {pod(containers(container("a", nil))), 0, 0},
		"containers add up": {pod(containers(
			container("a", list("memory", "100Mi", "ephemeral-storage", "1Gi", "cpu", "3")), container("b", memory("50Mi")),
		)), 150 * mi, gi},
		"an init container that needs more":    {pod(a(), container("i", memory("300Mi")), container("j", memory("200Mi"))), 300 * mi, 0},
		"an init container that needs less":    {pod(a(), container("i", memory("30Mi"))), 100 * mi, 0},
		"a sidecar counts with the containers": {pod(a(), sidecar("s", memory("20Mi"))), 120 * mi, 0},
		"an init container after a sidecar has it beside it": {pod(
			containers(container("a", memory("10Mi"))),
			container("i", memory("140Mi")), sidecar("s", memory("100Mi")), container("j", memory("50Mi")), sidecar("z", memory("5Mi")),
		), 150 * mi, 0},
		"overhead on top of a request": {podLevel(pod(a()), nil, list("memory", "7Mi", "ephemeral-storage", "9Mi")), 107 * mi, 0},
		"pod level replaces the containers for every resource": {podLevel(
			pod(containers(container("a", list("memory", "100Mi", "ephemeral-storage", "1Gi")))), requests(memory("30Mi")), memory("1Mi"),
		), 31 * mi, 0},
		"pod level with cpu alone leaves no memory request": {podLevel(pod(a()), requests(list("cpu", "1")), nil), 0, 0},
		"pod-level limits replace the containers too": {
			podLevel(pod(a()), &corev1.ResourceRequirements{Limits: list("hugepages-2Mi", "2Mi")}, nil), 0, 0,
		},
		"pod level with an unsupported name is not pod level": {
			podLevel(pod(a()), requests(list("ephemeral-storage", "1Gi")), nil), 100 * mi, 0,
		},
		"the pod level that is allocated, without the overhead in it": {
			shows(podLevel(pod(nil), requests(memory("80Mi")), memory("5Mi")), corev1.PodStatus{AllocatedResources: memory("45Mi")}), 45 * mi, 0,
		},
		"what is allocated, not what a resize requests": {shows(
			pod(containers(container("a", list("memory", "900Mi", "ephemeral-storage", "3Mi")), container("b", memory("1Mi"))),
				sidecar("s", memory("500Mi"))),
			corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{
					{Name: "b"}, {Name: "a", AllocatedResources: memory("100Mi"), Resources: requests(memory("77Mi"))},
				},
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "s", AllocatedResources: memory("50Mi")}},
			}), 151 * mi, 3 * mi},
		"what resources show where nothing is shown as allocated": {shows(
			pod(containers(container("a", memory("900Mi")), container("b", memory("1Mi")))),
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "a", Resources: requests(memory("60Mi"))}, {Name: "b", Resources: requests(nil)},
			}}), 60 * mi, 0},
		"more than an int64 holds": {
			pod(containers(container("a", memory("9223372036854775807")), container("b", memory("1")))), math.MaxInt64, 0,
		},
		"a fraction of a byte is rounded up, once": {pod(containers(container("a", memory("500m")), container("b", memory("600m")))), 2, 0},
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
