package main

import (
	"context"
	"fmt"
	"strings"

	"go.uber.org/zap"
	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
)

// need is a field that requires rights beyond those of deploy/daemonset.yaml.
type need struct {
	field   string // and that it is set
	overlay string // grants the rights
	with    string // what evictd does with them
	without string // what happens where a right is missing
	grants  string // what has the rights of deploy/daemonset.yaml; "" is the ClusterRole
	rights  []authorizationv1.ResourceAttributes
}

// needs returns what a configuration requires.
func (f *whereFlags) needs(c *config.EvictdConfiguration) []need {
	var needs []need
	if c.DisruptionBudgets == config.BudgetsBestEffort {
		needs = append(needs, bestEffortNeeds())
	}
	if c.TaintNode {
		needs = append(needs, taintNeeds(f.nodeName))
	}
	return needs
}

func bestEffortNeeds() need {
	return need{
		field: "disruptionBudgets is bestEffort", overlay: "deploy/overlays/best-effort",
		with: "under hard pressure a pod may be deleted although its budget blocks it", without: "budgets are respected",
		rights: []authorizationv1.ResourceAttributes{
			{Verb: "delete", Resource: "pods"},
			{Verb: "get", Group: policyv1.GroupName, Resource: "poddisruptionbudgets"},
		},
	}
}

func taintNeeds(node string) need {
	return need{
		field: "taintNode is true", overlay: "deploy/overlays/taint",
		with: "the node is tainted while it is under pressure", without: "the node is not tainted and evictions go on",
		rights: []authorizationv1.ResourceAttributes{
			{Verb: "get", Resource: "nodes", Name: node}, {Verb: "patch", Resource: "nodes", Name: node},
		},
	}
}

// baseRights are those without which no pod is evicted, dry run or not.
func baseRights() []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "pods"},
		{Verb: "watch", Resource: "pods"},
		{Verb: "create", Resource: "pods", Subresource: "eviction"},
	}
}

// shippedNeeds returns the rights of deploy/daemonset.yaml, and what happens without them.
func shippedNeeds(node string) []need {
	get := func(resource, subresource, name string) []authorizationv1.ResourceAttributes {
		return []authorizationv1.ResourceAttributes{{Verb: "get", Resource: resource, Subresource: subresource, Name: name}}
	}
	return []need{
		{without: "no pod is evicted", rights: baseRights()},
		{without: "after an eviction without an answer no other pod is evicted for a while", rights: get("pods", "", "")},
		{without: "the node's capacity is not checked and no pod is evicted for disk", rights: get("nodes", "", node)},
		{without: "the kubelet's Summary API refuses evictd, and no pod is evicted for disk", rights: get("nodes", "stats", node)},
		{
			without: "there is no Event on evicted pods and their controllers",
			rights:  []authorizationv1.ResourceAttributes{{Verb: "create", Resource: "events"}, {Verb: "patch", Resource: "events"}},
		},
		stopNeeds(),
	}
}

// stopNeeds are the rights to follow the ConfigMap that stops evictd. RBAC takes the name from the
// field selector of the request.
func stopNeeds() need {
	stop := need{
		without: "it is not known whether evictd is stopped, and it does not act",
		grants:  "the Role and the RoleBinding evictd of deploy/daemonset.yaml",
	}
	for _, verb := range []string{"get", "list", "watch"} {
		stop.rights = append(stop.rights, authorizationv1.ResourceAttributes{
			Verb: verb, Resource: "configmaps", Name: acting.StopName, Namespace: stopNamespace(),
		})
	}
	return stop
}

// checkBaseRights reports at startup that the account may not evict. Otherwise that would
// only be found when an eviction is needed.
func (d *daemon) checkBaseRights(ctx context.Context) {
	missing, err := d.clients.missing(ctx, baseRights())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		d.logger.Warn("whether the account has the rights to list, watch and evict pods could not be checked", zap.Error(err))
	case len(missing) > 0:
		d.logger.Warn("the account lacks rights without which no pod is evicted",
			zap.String("detail", "the right to "+strings.Join(missing, " and to ")+
				" is missing; apply the ClusterRole and the ClusterRoleBinding of deploy/daemonset.yaml"))
	}
}

// checkRights reports, at startup and when the file changes, that a configuration needs a
// right that the account lacks. Otherwise that would only be found when the right is needed.
func (d *daemon) checkRights(ctx context.Context, c *config.EvictdConfiguration) {
	for _, n := range d.flags.needs(c) {
		missing, err := d.clients.missing(ctx, n.rights)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.logger.Warn(n.field+" and whether the account has the rights for it could not be checked", zap.Error(err))
		case len(missing) > 0:
			d.logger.Warn(n.field+" and the account lacks rights for it: "+n.without,
				zap.String("detail", "the right to "+strings.Join(missing, " and to ")+" is missing; apply "+n.overlay))
		default:
			d.logger.Info(n.field + ": " + n.with)
		}
	}
}

// accessReviewer asks the API server for rights, as client-go's client of
// SelfSubjectAccessReviews does.
type accessReviewer interface {
	Create(
		ctx context.Context, review *authorizationv1.SelfSubjectAccessReview, options metav1.CreateOptions,
	) (*authorizationv1.SelfSubjectAccessReview, error)
}

// missing returns the rights that the account lacks, in RBAC's terms.
func (c *clients) missing(ctx context.Context, rights []authorizationv1.ResourceAttributes) ([]string, error) {
	var missing []string
	for i := range rights {
		right := &rights[i]
		allowed, err := c.may(ctx, right)
		if err != nil {
			return nil, err
		}
		if !allowed {
			missing = append(missing, right.Verb+" "+askedOf(right))
		}
	}
	return missing, nil
}

// may reports whether the account has a right.
func (c *clients) may(ctx context.Context, right *authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: right}}
	answer, err := c.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("asking for the right to %s %s: %w", right.Verb, right.Resource, withoutURL(err))
	}
	return answer.Status.Allowed, nil
}

// askedOf names a right in RBAC's terms.
func askedOf(right *authorizationv1.ResourceAttributes) string {
	if right.Subresource == "" {
		return right.Resource
	}
	return right.Resource + "/" + right.Subresource
}
