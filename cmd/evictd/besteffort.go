package main

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"
	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/config"
)

// bestEffortRights are what `disruptionBudgets: bestEffort` needs beside the rights of
// deploy/daemonset.yaml; deploy/overlays/best-effort gives them.
func bestEffortRights() []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "delete", Resource: "pods"},
		{Verb: "get", Group: policyv1.GroupName, Resource: "poddisruptionbudgets"},
	}
}

// checkBestEffort says at the start, and when the file changes, that a configuration goes
// past budgets and the account may not. Otherwise that would show in the moment when it
// counts.
func (d *daemon) checkBestEffort(ctx context.Context, c *config.EvictdConfiguration) {
	if c.DisruptionBudgets != config.BudgetsBestEffort {
		return
	}
	missing, err := d.clients.missing(ctx, bestEffortRights())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		d.logger.Warn("whether evictd may do what disruptionBudgets asks for could not be checked", zap.Error(err))
	case len(missing) > 0:
		d.logger.Warn("disruptionBudgets is bestEffort and the account lacks rights for it: budgets are respected",
			zap.String("detail", "the right to "+strings.Join(missing, " and to ")+" is missing; apply deploy/overlays/best-effort"))
	default:
		d.logger.Info("disruptionBudgets is bestEffort: under hard pressure a pod may be deleted past its budget")
	}
}

// missing returns which of the rights the account does not have in all namespaces, as RBAC
// words them.
func (c *clients) missing(ctx context.Context, rights []authorizationv1.ResourceAttributes) ([]string, error) {
	var missing []string
	for i := range rights {
		right := &rights[i]
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right}}
		answer, err := c.telling.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("asking for the right to %s %s: %w", right.Verb, right.Resource, withoutURL(err))
		}
		if !answer.Status.Allowed {
			missing = append(missing, right.Verb+" "+right.Resource)
		}
	}
	return missing, nil
}
