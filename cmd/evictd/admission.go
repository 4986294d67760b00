package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/confined"
	"github.com/evictd/evictd/pkg/evict"
)

// noPod is the name and the UID of a pod that does not exist.
const noPod = "evictd-doctor-no-pod"

// prober sends dry runs that the admission policies of deploy/daemonset.yaml must refuse. None of
// them can change anything, whether it is refused or not: all are dry runs, and an eviction names
// in addition a UID that no pod has.
type prober struct {
	clients *clients
	core    rest.Interface // for any path; without a rate limit
	node    string
}

// policies returns the admission policies, with evictd's requests to try them.
func (p *prober) policies() []confined.Policy {
	policy := func(name, without string, try func(context.Context, string) (confined.Answer, error)) confined.Policy {
		return confined.Policy{
			Name: name, Without: without,
			Try: func(ctx context.Context) (confined.Answer, error) { return try(ctx, name) },
		}
	}
	return []confined.Policy{
		policy("evictd-evicts-on-own-node", "evictd's token can evict the pods of every node", p.tryOtherNode),
		policy("evictd-on-own-node", "evictd's token can evict without naming a UID, and delete pods of every node where an overlay lets it delete", p.tryAtOnce),
		policy("evictd-taints-own-node", "evictd's token can change every node where an overlay lets it write to nodes", p.tryNode),
		policy("evictd-events-of-own-node", "evictd's token can write Events in the name of other components", p.tryEvent),
	}
}

// confinable returns an error unless the account is one that the policies may confine.
func (p *prober) confinable(ctx context.Context) error {
	who, err := accountOf(ctx, p.core)
	if err == nil && !who.Service {
		err = fmt.Errorf("%s is no service account, and the policies do not confine it", who.Name)
	}
	return err
}

// tryOtherNode evicts a pod of another node. The pod must exist: the policy has pods as parameters,
// and allows what names none of them.
func (p *prober) tryOtherNode(ctx context.Context, policy string) (confined.Answer, error) {
	namespace, name, err := p.elsewhere(ctx)
	if err != nil {
		return confined.Accepted, err
	}
	answer, err := p.tryEviction(ctx, policy, namespace, name, nil)
	if isPodNotFound(err) {
		err = fmt.Errorf("%w: the pod of another node that was tried has just ended", confined.ErrNothingToTry)
	}
	return answer, err
}

// elsewhere returns a pod that is not on this node: one of evictd's own namespace where there is
// one, because the API server converts each pod of the namespace for the policy.
func (p *prober) elsewhere(ctx context.Context) (namespace, name string, err error) {
	paths := []string{"/api/v1/pods"}
	if own := self().Namespace; own != "" {
		paths = []string{"/api/v1/namespaces/" + own + "/pods", "/api/v1/pods"}
	}
	for _, path := range paths {
		var pods struct {
			Items []struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
			} `json:"items"`
		}
		err = send(ctx, p.core.Get().AbsPath(path).Param("fieldSelector", "spec.nodeName!="+p.node).Param("limit", "1"), &pods)
		switch {
		case err != nil:
			return "", "", fmt.Errorf("looking for a pod of another node: %w", err)
		case len(pods.Items) > 0:
			return pods.Items[0].Metadata.Namespace, pods.Items[0].Metadata.Name, nil
		}
	}
	return "", "", fmt.Errorf("%w: no pod is on another node", confined.ErrNothingToTry)
}

// tryAtOnce evicts a pod that does not exist, with a grace period of 0.
func (p *prober) tryAtOnce(ctx context.Context, policy string) (confined.Answer, error) {
	zero := int64(0)
	answer, err := p.tryEviction(ctx, policy, namespaceToTry(), noPod, &zero)
	if isPodNotFound(err) {
		return confined.Accepted, nil
	}
	return answer, err
}

// namespaceToTry is where things are tried that do not exist.
func namespaceToTry() string { return cmp.Or(self().Namespace, metav1.NamespaceDefault) }

// tryEviction sends an eviction. The API server asks the policies before it looks for the pod, its
// budgets and its UID, in this order: so a policy that is in force refuses also what could not be
// evicted, and without it the request ends at one of these.
func (p *prober) tryEviction(ctx context.Context, policy, namespace, name string, grace *int64) (confined.Answer, error) {
	uid := types.UID(noPod)
	body, err := json.Marshal(&policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		DeleteOptions: &metav1.DeleteOptions{
			DryRun: []string{metav1.DryRunAll}, GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &uid},
		},
	})
	if err != nil {
		return confined.Accepted, err
	}
	answer, err := p.try(ctx, policy, p.core.Post().AbsPath("/api/v1/namespaces", namespace, "pods", name, "eviction").
		SetHeader("Content-Type", mediaJSON).Body(body).MaxRetries(0))
	if apierrors.IsConflict(err) || blockedByBudgets(err) { // of the UID, or of a budget
		return confined.Accepted, nil
	}
	return answer, err
}

// blockedByBudgets reports whether the pod's budgets refused an eviction.
func blockedByBudgets(err error) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) ||
		apierrors.IsInternalError(err) && strings.Contains(err.Error(), "more than one PodDisruptionBudget")
}

// isPodNotFound reports whether the API server says that the pod does not exist. That its namespace
// does not is said before the policies are asked.
func isPodNotFound(err error) bool {
	var answer apierrors.APIStatus
	if !evict.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Kind == "pods"
}

// tryNode adds an annotation to the node, where the account may write to it at all.
func (p *prober) tryNode(ctx context.Context, policy string) (confined.Answer, error) {
	allowed, err := p.clients.may(ctx, &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes", Name: p.node})
	if err != nil {
		return confined.Accepted, err
	}
	if !allowed {
		return confined.RefusedByRBAC, nil
	}
	return p.try(ctx, policy, p.core.Patch(types.MergePatchType).AbsPath("/api/v1/nodes", p.node).
		Body([]byte(`{"metadata":{"annotations":{"evictd.dev/doctor":"dry run"}}}`)))
}

// tryEvent writes an Event of another component.
func (p *prober) tryEvent(ctx context.Context, policy string) (confined.Answer, error) {
	namespace := namespaceToTry()
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"generateName":"evictd-doctor-","namespace":%q},`+
		`"involvedObject":{"kind":"Pod","namespace":%q,"name":%q},`+
		`"source":{"component":"evictd-doctor"},"reason":"DryRun","type":"Normal"}`, namespace, namespace, noPod)
	return p.try(ctx, policy, p.core.Post().AbsPath("/api/v1/namespaces", namespace, "events").
		SetHeader("Content-Type", mediaJSON).Body([]byte(text)))
}

// try sends a request as a dry run and returns the policy's answer.
func (*prober) try(ctx context.Context, policy string, request *rest.Request) (confined.Answer, error) {
	err := send(ctx, request.Param("dryRun", metav1.DryRunAll), nil)
	switch {
	case err == nil:
		return confined.Accepted, nil
	case strings.Contains(err.Error(), "'"+policy+"'"): // ValidatingAdmissionPolicy 'NAME' with binding 'NAME' denied request: …
		return confined.RefusedByPolicy, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "): // RBAC's words: User … cannot create resource …
		return confined.RefusedByRBAC, nil
	default:
		return confined.Accepted, err
	}
}
