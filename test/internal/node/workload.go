package node

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/cluster"
	"github.com/evictd/evictd/test/internal/eventually"
)

// Workload is a pod that uses memory.
type Workload struct {
	// Name is the pod's, or its Deployment's; also the value of its label app.
	Name string
	// UsesMiB is its usage, AsksMiB its request.
	UsesMiB, AsksMiB int64
	// LimitMiB is its limit; 0 is none.
	LimitMiB int64
	// Replicas is how many pods its Deployment has; 0 is one.
	Replicas int32
	// Flags are further flags of the workload.
	Flags []string
	// Change changes the pod before it is created; nil changes nothing.
	Change func(*corev1.PodSpec)
}

func (w Workload) labels() map[string]string { return map[string]string{"app": w.Name} }

func (w Workload) pod() corev1.PodSpec {
	spec := corev1.PodSpec{
		HostNetwork:                  true, // the test node has no pod network
		AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{
			Name:            "workload",
			Image:           cluster.PauseImage,
			ImagePullPolicy: corev1.PullNever,
			Args:            append([]string{fmt.Sprintf("--memory=%dMi", w.UsesMiB)}, w.Flags...),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceMemory: *resource.NewQuantity(w.AsksMiB<<20, resource.BinarySI),
			}},
		}},
	}
	if w.LimitMiB > 0 {
		spec.Containers[0].Resources.Limits = corev1.ResourceList{
			corev1.ResourceMemory: *resource.NewQuantity(w.LimitMiB<<20, resource.BinarySI),
		}
	}
	if w.Change != nil {
		w.Change(&spec)
	}
	return spec
}

// Mount adds a volume to a pod, and mounts it into its first container.
func Mount(spec *corev1.PodSpec, name, at string, source corev1.VolumeSource) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: at})
}

// Deploy makes a Deployment.
func (w Workload) Deploy(ctx context.Context, n *Node, namespace string) error {
	_, err := n.Client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(max(w.Replicas, 1)),
			Selector: &metav1.LabelSelector{MatchLabels: w.labels()},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: w.labels()}, Spec: w.pod()},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making deployment %s: %w", w.Name, err)
	}
	return nil
}

// Pod is the workload as a pod without a controller.
func (w Workload) Pod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Labels: w.labels()},
		Spec:       w.pod(),
	}
}

// Bare makes a pod without a controller.
func (w Workload) Bare(ctx context.Context, n *Node, namespace string) error {
	_, err := n.Client.CoreV1().Pods(namespace).Create(ctx, w.Pod(), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making pod %s: %w", w.Name, err)
	}
	return nil
}

// Budget creates a PodDisruptionBudget for the pods of the label app that keeps that many of
// them, and waits until the disruption controller has counted them.
func (n *Node) Budget(ctx context.Context, namespace, app string, keep int32) error {
	_, err := n.Kubectl(ctx, "-n", namespace, "create", "poddisruptionbudget", app, "--selector=app="+app, fmt.Sprintf("--min-available=%d", keep))
	if err != nil {
		return err
	}
	err = eventually.Poll(ctx, func(ctx context.Context) bool {
		b, unread := n.Client.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, app, metav1.GetOptions{})
		return unread == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy >= max(keep, 1)
	})
	if err != nil {
		return fmt.Errorf("waiting for the disruption controller to count budget %s: %w", app, err)
	}
	return nil
}

// Pods returns the pods of the label app that are not terminating.
func (n *Node) Pods(ctx context.Context, namespace, app string) ([]corev1.Pod, error) {
	list, err := n.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s: %w", app, err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil }), nil
}

// Running waits until one pod of the label app uses its memory, and returns it.
func (n *Node) Running(ctx context.Context, namespace, app string) (corev1.Pod, error) {
	var running corev1.Pod
	err := eventually.Poll(ctx, func(ctx context.Context) bool {
		pods, err := n.Pods(ctx, namespace, app)
		if err != nil || len(pods) != 1 || !ready(&pods[0]) {
			return false
		}
		running = pods[0]
		return true
	})
	if err != nil {
		described, _ := n.Kubectl(context.WithoutCancel(ctx), "-n", namespace, "describe", "pods", "-l", "app="+app)
		return running, fmt.Errorf("waiting for a pod of %s to run: %w\n%s", app, err, described)
	}
	return running, nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
