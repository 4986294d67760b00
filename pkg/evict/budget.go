package evict

import (
	"context"
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Budget is what a PodDisruptionBudget requires and has, by its status.
type Budget struct {
	// Name of the budget, in the namespace of its pods.
	Name string
	// Desired is how many healthy pods it requires, Healthy how many there are.
	Desired, Healthy int64
}

// Budget reads a PodDisruptionBudget; where it does not exist, the zero value says so. It returns an
// error also where the status does not reflect the current spec: unknown is not zero.
func (e *Evictor) Budget(ctx context.Context, namespace, name string) (Budget, error) {
	read := &policyv1.PodDisruptionBudget{}
	err := withTokenReadAgain(func() error {
		return e.client.Get().AbsPath("/apis", policyv1.SchemeGroupVersion.Group, policyv1.SchemeGroupVersion.Version).
			Namespace(namespace).Resource(kindBudgets).Name(name).
			MaxRetries(0).Do(ctx).Into(read)
	})
	if s, _ := statusOf(err); IsNotFound(err) && s.Details.Kind == kindBudgets {
		return Budget{}, nil
	}
	if err == nil {
		err = computed(read)
	}
	if err != nil {
		return Budget{}, fmt.Errorf("reading PodDisruptionBudget %s/%s: %w", namespace, name, err)
	}
	return Budget{Name: name, Desired: int64(read.Status.DesiredHealthy), Healthy: int64(read.Status.CurrentHealthy)}, nil
}

// computed returns why the status of a budget does not count. The API server does not trust such figures
// either (k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go, checkAndDecrement).
func computed(budget *policyv1.PodDisruptionBudget) error {
	if budget.Status.ObservedGeneration < budget.Generation {
		return errors.New("its status is behind its spec")
	}
	allowed := meta.FindStatusCondition(budget.Status.Conditions, policyv1.DisruptionAllowedCondition)
	if allowed != nil && allowed.Status == metav1.ConditionFalse && allowed.Reason == policyv1.SyncFailedReason {
		return fmt.Errorf("its status could not be computed: %s", allowed.Message)
	}
	return nil
}
