package checks

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
)

// need is what some rights are for.
type need struct {
	// parts are those of their checks.
	parts Part
	// rights are verb and resource, with the subresource after a slash and the API group after a dot.
	rights []string
	// without is what happens where a right is missing.
	without string
	// name and namespace are those of the one object that they are for; "" is any.
	name, namespace string
	// grants is what to apply for them.
	grants string
}

// needs returns the rights of deploy/daemonset.yaml, and those of the fields that are set. RBAC takes the name
// of what is listed from the field selector of the request.
func needs(in *Inputs) []need {
	const role, opt = "the ClusterRole and the ClusterRoleBinding of deploy/daemonset.yaml", Server | Edit
	own := in.NodeName
	all := []need{
		{Server, []string{"list pods", "watch pods", "create pods/eviction"}, "no pod is evicted", "", "", role},
		{Server, []string{"get pods"}, "after an eviction without an answer no other pod is evicted for a while", "", "", role},
		{Server, []string{"get nodes"}, "the node's capacity is not checked and no pod is evicted for disk", own, "", role},
		{Server, []string{"create events", "patch events"}, "there are no Events on pods and on the node", "", "", role},
		{
			Server,
			[]string{"list configmaps", "watch configmaps"},
			"it is not known whether evictd is stopped, and it does not act", acting.StopName, in.Namespace,
			"the Role and the RoleBinding evictd of deploy/daemonset.yaml",
		},
	}
	if in.Configuration.Disk.Source == config.DiskSummary {
		all = append(all, need{Server, []string{"get nodes/stats"}, "the kubelet's Summary API refuses evictd, and no pod is evicted for disk", own, "", role})
	}
	if in.Configuration.DisruptionBudgets == config.BudgetsBestEffort {
		rights := []string{"delete pods", "get poddisruptionbudgets.policy"}
		all = append(all, need{opt, rights, "budgets are respected", "", "", "deploy/overlays/best-effort"})
	}
	if in.Configuration.TaintNode != config.TaintOff {
		all = append(all, need{opt, []string{"patch nodes"}, "the node is not tainted and evictions go on", own, "", "deploy/overlays/taint"})
	}
	return all
}

// check asks whether the account has one of them.
func (n need) check(right string) func(context.Context, *Inputs) Result {
	verb, resource, _ := strings.Cut(right, " ")
	resource, subresource, _ := strings.Cut(resource, "/")
	resource, group, _ := strings.Cut(resource, ".")
	return func(ctx context.Context, in *Inputs) Result {
		var review struct{ Status struct{ Allowed bool } }
		err := in.API.ask(ctx, request{http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", fmt.Sprintf(
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":`+
				`{"verb":%q,"group":%q,"resource":%q,"subresource":%q,"name":%q,"namespace":%q}}}`,
			verb, group, resource, subresource, n.name, n.namespace)}, &review)
		switch {
		case err != nil:
			return unknown("asking for it: "+oneLine(err), "if it is missing, "+n.without, "run evictd doctor again")
		case !review.Status.Allowed:
			return missing("the account lacks the right to "+right, n.without, "apply "+n.grants)
		default:
			return ok("granted")
		}
	}
}
