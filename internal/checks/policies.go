package checks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
)

// policyFamily begins the names of the policies' checks.
const policyFamily = "policy/"

// noPod is the name and the UID of a pod that does not exist.
const noPod = "evictd-doctor-no-pod"

// errNothingToTry is why a policy could not be tried although evictd may: there is nothing that it
// would have to refuse now.
var errNothingToTry = errors.New("there is nothing that the policy would refuse")

// policy is one admission policy of deploy/daemonset.yaml. They name evictd's account as text: where the
// account has another name, or a policy or its binding is not there, evictd works as before and nothing
// else shows that its token may now evict on every node.
type policy struct {
	// name is that of the policy and of its binding.
	name string
	// without is what a holder of evictd's token could do without it.
	without string
	// trial is a request that the policy must refuse; without a path it is [evictionElsewhere]. It is sent as a dry
	// run, and an eviction names in addition a UID that no pod has: it changes nothing, whether it is refused or not.
	trial request
}

// policies are those of deploy/daemonset.yaml. They are tried by evictions of a pod of another node, and of one that
// does not exist with a grace period of 0, a write to the own node, and an Event of another component.
func policies(in *Inputs) []policy {
	event := fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"generateName":"evictd-doctor-","namespace":%q},`+
		`"involvedObject":{"kind":"Pod","namespace":%q,"name":%q},`+
		`"source":{"component":"evictd-doctor"},"reason":"DryRun","type":"Normal"}`, in.Namespace, in.Namespace, noPod)
	return []policy{
		{"evictd-evicts-on-own-node", "evictd's token can evict the pods of every node", request{}},
		{
			"evictd-on-own-node", "evictd's token can evict without naming a UID, and delete pods of every node where an overlay lets it delete",
			eviction(in.Namespace, noPod, `,"gracePeriodSeconds":0`),
		},
		{
			"evictd-taints-own-node", "evictd's token can change every node where an overlay lets it write to nodes",
			request{http.MethodPatch, "/api/v1/nodes/" + in.NodeName, `{"metadata":{"annotations":{"evictd.dev/doctor":"dry run"}}}`},
		},
		{
			"evictd-events-of-own-node", "evictd's token can write Events in the name of other components",
			request{http.MethodPost, "/api/v1/namespaces/" + in.Namespace + "/events", event},
		},
	}
}

// evictionElsewhere evicts a pod of another node. The pod must exist: the policy has pods as parameters,
// and allows what names none of them. It is one of evictd's own namespace where there is one, because the
// API server converts each pod of the namespace for the policy.
func evictionElsewhere(ctx context.Context, in *Inputs) (request, error) {
	query := "?" + url.Values{"fieldSelector": {"spec.nodeName!=" + in.NodeName}, "limit": {"1"}}.Encode()
	for _, path := range []string{"/api/v1/namespaces/" + in.Namespace + "/pods", "/api/v1/pods"} {
		var pods metav1.PartialObjectMetadataList
		if err := in.API.ask(ctx, request{http.MethodGet, path + query, ""}, &pods); err != nil {
			return request{}, fmt.Errorf("looking for a pod of another node: %w", err)
		}
		if len(pods.Items) > 0 {
			return eviction(pods.Items[0].Namespace, pods.Items[0].Name, ""), nil
		}
	}
	return request{}, fmt.Errorf("%w: no pod is on another node", errNothingToTry)
}

func eviction(namespace, name, options string) request {
	return request{http.MethodPost, "/api/v1/namespaces/" + namespace + "/pods/" + name + "/eviction", fmt.Sprintf(
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"namespace":%q,"name":%q},`+
			`"deleteOptions":{"dryRun":["All"],"preconditions":{"uid":%q}%s}}`, namespace, name, noPod, options)}
}

// check tries a policy, which shows that it is in force for this account.
func (p policy) check(ctx context.Context, in *Inputs) Result {
	who, err := in.API.account(ctx)
	trial := p.trial
	switch {
	case err != nil:
	case !who.service():
		err = fmt.Errorf("%s is no service account, and the policies do not confine it", who.name)
	case trial.path == "":
		trial, err = evictionElsewhere(ctx, in)
	}
	if err != nil {
		return p.untried(err)
	}
	trial.path += "?dryRun=" + metav1.DryRunAll
	_, err = in.API.send(ctx, trial)
	switch {
	case err == nil || ends(err):
		return missing("not in force for this account: a dry run was not refused", p.without,
			"apply deploy/daemonset.yaml; ValidatingAdmissionPolicies need Kubernetes 1.30")
	case strings.Contains(err.Error(), "'"+p.name+"'"): // ValidatingAdmissionPolicy 'NAME' with binding 'NAME' denied request: …
		return ok("in force: it refused a dry run that it must refuse")
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "): // RBAC's words: User … cannot create resource …
		return ok("not needed: RBAC refuses what it confines")
	case isMissing(err, ""):
		return p.untried(fmt.Errorf("%w: the pod of another node that was tried has just ended", errNothingToTry))
	default:
		return p.untried(err)
	}
}

// untried is the result where a trial shows nothing.
func (p policy) untried(why error) Result {
	result := unknown("not tried: "+oneLine(why), "if it is missing, "+p.without,
		"kubectl get validatingadmissionpolicy,validatingadmissionpolicybinding "+p.name)
	if errors.Is(why, errNothingToTry) {
		result.State = Degraded
	}
	return result
}

// ends reports whether an eviction passed the policies. The API server asks them before it looks for the
// pod, its budgets and its UID, in this order: so a policy that is in force refuses also what could not be
// evicted, and without it the request ends at one of these.
func ends(err error) bool {
	return isMissing(err, noPod) || apierrors.IsConflict(err) || apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget")
}

// isMissing reports whether the API server says that the pod does not exist; "" is any pod. That a namespace does not
// exist it says before it asks the policies.
func isMissing(err error, pod string) bool {
	return evict.IsNotFound(err) && strings.HasPrefix(err.Error(), `pods "`+pod)
}
