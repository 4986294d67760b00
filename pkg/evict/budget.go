package evict

import (
	"context"
	"errors"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrNoBudget says that a PodDisruptionBudget does not exist.
var ErrNoBudget = errors.New("there is no such budget")

// Budget is what a PodDisruptionBudget requires and has, by its status.
type Budget struct {
	// Name of the budget, in the namespace of its pods.
	Name string
	// Desired is how many healthy pods it requires, Healthy how many there are.
	Desired, Healthy int64
}

// Budget reads a PodDisruptionBudget. It returns an error also where the status does not
// reflect the current spec: unknown is not zero.
func (e *Evictor) Budget(ctx context.Context, namespace, name string) (Budget, error) {
	read := &policyv1.PodDisruptionBudget{}
	err := withTokenReadAgain(func() error {
		return e.client.Get().AbsPath("/apis", policyv1.SchemeGroupVersion.Group, policyv1.SchemeGroupVersion.Version).
			Namespace(namespace).Resource("poddisruptionbudgets").Name(name).
			MaxRetries(0).Do(ctx).Into(read)
	})
	switch {
	case isBudgetNotFound(err):
		return Budget{}, fmt.Errorf("reading PodDisruptionBudget %s/%s: %w: %w", namespace, name, ErrNoBudget, err)
	case err != nil:
		return Budget{}, fmt.Errorf("reading PodDisruptionBudget %s/%s: %w", namespace, name, err)
	case read.Status.ObservedGeneration < read.Generation:
		return Budget{}, fmt.Errorf("reading PodDisruptionBudget %s/%s: its status is behind its spec", namespace, name)
	}
	// The API server does not trust these figures either (k8s.io/kubernetes
	// pkg/registry/core/pod/storage/eviction.go, checkAndDecrement).
	allowed := meta.FindStatusCondition(read.Status.Conditions, policyv1.DisruptionAllowedCondition)
	if allowed != nil && allowed.Status == metav1.ConditionFalse && allowed.Reason == policyv1.SyncFailedReason {
		return Budget{}, fmt.Errorf("reading PodDisruptionBudget %s/%s: its status could not be computed: %s", namespace, name, allowed.Message)
	}
	return Budget{Name: name, Desired: int64(read.Status.DesiredHealthy), Healthy: int64(read.Status.CurrentHealthy)}, nil
}

// isBudgetNotFound reports whether the error says that the budget does not exist.
func isBudgetNotFound(err error) bool {
	return isNotFound(err, func(s *metav1.Status) bool { return s.Details != nil && s.Details.Kind == "poddisruptionbudgets" })
}
