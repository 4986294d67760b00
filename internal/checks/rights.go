package checks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
)

// need is what some rights are for.
type need struct {
	// field is the opt-in of the configuration that needs them, all of them in one check; "" is none.
	field string
	// rights are verb and resource, with the subresource after a slash and the API group after a dot.
	rights []string
	// without is what happens where a right is missing.
	without string
	// name and namespace are those of the one object that they are for; "" is any.
	name, namespace string
	// grants is what to apply for them; "" is the ClusterRole.
	grants string
}

// needs returns the rights of deploy/daemonset.yaml, and those of the fields that are set. RBAC takes the name
// of what is listed from the field selector of the request.
func needs(in *Inputs) []need {
	all := []need{
		{rights: []string{"list pods", "watch pods", "create pods/eviction"}, without: "no pod is evicted"},
		{rights: []string{"get pods"}, without: "after an eviction without an answer no other pod is evicted for a while"},
		{rights: []string{"get nodes"}, name: in.NodeName, without: "the node's capacity is not checked and no pod is evicted for disk"},
		{rights: []string{"get nodes/stats"}, name: in.NodeName, without: "the kubelet's Summary API refuses evictd, and no pod is evicted for disk"},
		{rights: []string{"create events", "patch events"}, without: "there is no Event on evicted pods and their controllers"},
		{
			rights: []string{"get configmaps", "list configmaps", "watch configmaps"}, name: acting.StopName, namespace: in.StopNamespace,
			without: "it is not known whether evictd is stopped, and it does not act",
			grants:  "the Role and the RoleBinding evictd of deploy/daemonset.yaml",
		},
	}
	if in.Configuration.Disk.Source == config.DiskNode {
		all = append(all[:3], all[4:]...)
	}
	if in.Configuration.DisruptionBudgets == config.BudgetsBestEffort {
		all = append(all, need{
			field: "disruptionBudgets", rights: []string{"delete pods", "get poddisruptionbudgets.policy"}, without: "budgets are respected",
			grants: "deploy/overlays/best-effort",
		})
	}
	if in.Configuration.TaintNode {
		all = append(all, need{
			field: "taintNode", rights: []string{"get nodes", "patch nodes"}, name: in.NodeName,
			without: "the node is not tainted and evictions go on", grants: "deploy/overlays/taint",
		})
	}
	return all
}

// check asks for all of them.
func (n need) check(ctx context.Context, in *Inputs) Result {
	var lacks []string
	for _, right := range n.rights {
		allowed, err := n.may(ctx, in, right)
		if err != nil {
			return unknown(oneLine(err), "if it is missing, "+n.without, "run evictd doctor again")
		}
		if !allowed {
			lacks = append(lacks, right)
		}
	}
	if len(lacks) > 0 {
		return missing("the account lacks the right to "+strings.Join(lacks, " and to "), n.without,
			"apply "+cmp.Or(n.grants, "the ClusterRole and the ClusterRoleBinding of deploy/daemonset.yaml"))
	}
	return ok("granted")
}

// may reports whether the account has a right.
func (n need) may(ctx context.Context, in *Inputs, right string) (bool, error) {
	verb, resource, _ := strings.Cut(right, " ")
	resource, subresource, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: n.name, Namespace: n.namespace,
		},
	}}
	review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SelfSubjectAccessReview"
	body, err := json.Marshal(&review)
	if err == nil {
		err = in.API.ask(ctx, request{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", string(body)}, &review)
	}
	if err != nil {
		return false, fmt.Errorf("asking for the right to %s: %w", right, err)
	}
	return review.Status.Allowed, nil
}
