package fleet

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	labelFleet    = "evictd.dev/fleet"
	labelWorkload = "app"
)

// make creates the namespaces, nodes, Deployments and budgets.
func (f *fleet) make(ctx context.Context) error {
	for _, name := range []*string{&f.namespace, &f.own} {
		made, err := f.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "fleet-"},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making a namespace: %w", err)
		}
		*name = made.Name
	}
	for i := range f.options.Nodes + 1 {
		name := f.spare()
		if i < f.options.Nodes {
			name = f.nodeName(i)
		}
		_, err := f.client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{labelFleet: f.namespace}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making node %s: %w", name, err)
		}
	}
	f.hands = newHands(f)
	f.watcher = newWatcher(f)
	return f.makeWorkloads(ctx)
}

// replicas returns how many pods the Deployment of that number has.
func (f *fleet) replicas(i int) int32 {
	all := f.options.Nodes * f.options.PodsPerNode
	n := all / f.options.Workloads
	if i < all%f.options.Workloads {
		n++
	}
	return int32(n) //nolint:gosec // a few thousand
}

func (f *fleet) makeWorkloads(ctx context.Context) error {
	if err := until(ctx, "the default service account is there", func(ctx context.Context) (bool, error) {
		_, err := f.client.CoreV1().ServiceAccounts(f.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	}); err != nil {
		return err
	}
	for i := range f.options.Workloads {
		name := fmt.Sprintf("workload-%d", i)
		selector := &metav1.LabelSelector{MatchLabels: map[string]string{labelWorkload: name}}
		unavailable := intstr.FromInt(f.options.Unavailable)
		_, err := f.client.PolicyV1().PodDisruptionBudgets(f.namespace).Create(ctx, &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &unavailable, Selector: selector},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("making the budget of %s: %w", name, err)
		}
		if _, err := f.client.AppsV1().Deployments(f.namespace).Create(ctx, deployment(name, f.replicas(i), selector), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making Deployment %s: %w", name, err)
		}
	}
	return nil
}

func deployment(name string, replicas int32, selector *metav1.LabelSelector) *appsv1.Deployment {
	seconds := int64(grace / time.Second)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &seconds,
					Containers: []corev1.Container{{
						Name: "c", Image: "none",
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceMemory: *resource.NewQuantity(podRequest, resource.BinarySI),
						}},
					}},
				},
			},
		},
	}
}

// ready waits until every pod runs and every budget was counted.
func (f *fleet) ready(ctx context.Context) error {
	if err := until(ctx, "all pods run", func(context.Context) (bool, error) {
		return f.hands.running() == f.options.Nodes*f.options.PodsPerNode, f.hands.fault()
	}); err != nil {
		return err
	}
	return until(ctx, "all budgets are counted", func(ctx context.Context) (bool, error) {
		list, err := f.client.PolicyV1().PodDisruptionBudgets(f.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			status := &list.Items[i].Status
			if status.ExpectedPods == 0 || status.CurrentHealthy != status.ExpectedPods || int(status.DisruptionsAllowed) != f.options.Unavailable {
				return false, nil
			}
		}
		return true, nil
	})
}
