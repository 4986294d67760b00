package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// account is the namespace of the shipped manifest, and its service account's name.
const account = "evictd"

// NodeName is the name of a node.
func NodeName(i int) string { return fmt.Sprintf("calm-%d", i) }

func agentName(i int) string { return fmt.Sprintf("evictd-%d", i) }

func (c *Calm) makeNode(ctx context.Context, i int) error {
	_, err := c.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName(i)}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making node %s: %w", NodeName(i), err)
	}
	return nil
}

// makePod creates a pod on its node and says that it runs; starting says before that its
// containers are being created, as the kubelet does.
func (c *Calm) makePod(ctx context.Context, pod *corev1.Pod, starting bool) (*corev1.Pod, error) {
	pods := c.client.CoreV1().Pods(pod.Namespace)
	made, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making pod %s: %w", pod.Name, err)
	}
	for _, running := range []bool{false, true} {
		if !running && !starting {
			continue
		}
		made.Status = statusOf(made, running)
		if made, err = pods.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("writing the status of pod %s: %w", pod.Name, err)
		}
	}
	return made, nil
}

// workloadPod is a pod of the usual size: one container with probes, an environment and volumes.
func workloadPod(namespace, name, node string) *corev1.Pod {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")},
		}}
	}
	var environment []corev1.EnvVar
	for _, key := range []string{"LOG_LEVEL", "DATABASE_URL", "CACHE_URL", "REGION", "FEATURES", "TIMEOUT", "TRACING_ENDPOINT", "POOL_SIZE"} {
		environment = append(environment, corev1.EnvVar{Name: key, Value: strings.ToLower(key) + ".value.of.some.length"})
	}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, GenerateName: "web-frontend-7c9f6d5b48-",
			Labels: map[string]string{
				"app.kubernetes.io/name": "web-frontend", "app.kubernetes.io/instance": "web", "app.kubernetes.io/version": "1.24.3",
				"app.kubernetes.io/part-of": "shop", "pod-template-hash": "7c9f6d5b48",
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "9090",
				"checksum/config": "4f5b5f7f6a9b0f7c0a7a1f0c7d5e1a3b2c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f",
			},
		},
		Spec: corev1.PodSpec{
			NodeName: node,
			Containers: []corev1.Container{{
				Name: "web", Image: "localhost/shop/web-frontend:1.24.3", Env: environment,
				Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}, {Name: "metrics", ContainerPort: 9090}},
				Resources:     corev1.ResourceRequirements{Requests: limits, Limits: limits},
				LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/web"}, {Name: "cache", MountPath: "/var/cache/web"}},
			}},
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "web-config"},
				}}},
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
	}
}

// agentPod is the pod of an agent.
func agentPod(name, node string) *corev1.Pod {
	pod := workloadPod(account, name, node)
	pod.Spec.ServiceAccountName = account
	return pod
}

// statusOf is the kubelet's status of a pod that starts or runs.
func statusOf(pod *corev1.Pod, running bool) corev1.PodStatus {
	now := metav1.NewTime(time.Now())
	ready := corev1.ConditionFalse
	status := corev1.PodStatus{
		Phase: corev1.PodPending, QOSClass: corev1.PodQOSGuaranteed, StartTime: &now,
		HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}},
	}
	container := corev1.ContainerStatus{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image}
	container.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	if running {
		const digest = "9c5b3f1e0d7a8b6c4e2f1a0b9d8c7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d"
		ready = corev1.ConditionTrue
		status.Phase, status.PodIP, status.PodIPs = corev1.PodRunning, "10.244.1.17", []corev1.PodIP{{IP: "10.244.1.17"}}
		container.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
		container.Ready, container.Started = true, new(true)
		container.ContainerID, container.ImageID = "containerd://"+digest, container.Image+"@sha256:"+digest
	}
	for _, kind := range []corev1.PodConditionType{
		corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: now})
	}
	status.ContainerStatuses = []corev1.ContainerStatus{container}
	return status
}

// finish turns a pod's status into that of an ended one.
func finish(pod *corev1.Pod) {
	now := metav1.NewTime(time.Now())
	pod.Status.Phase = corev1.PodSucceeded
	container := &pod.Status.ContainerStatuses[0]
	container.Ready, container.Started = false, new(false)
	container.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", FinishedAt: now, ContainerID: container.ContainerID,
	}}
}
