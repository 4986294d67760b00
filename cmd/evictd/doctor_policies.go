package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/doctor"
	"github.com/evictd/evictd/pkg/evict"
)

// policies are the admission policies of deploy/daemonset.yaml. Each is read where the account may
// read it, and is tried otherwise.
func (a *seenAPI) policies() []doctor.Policy {
	policy := func(name, without string, try func(context.Context, string) (doctor.Answer, error)) doctor.Policy {
		return doctor.Policy{
			Name: name, Without: without,
			Read: func(ctx context.Context) (string, error) { return a.readPolicy(ctx, name) },
			Try: func(ctx context.Context) (doctor.Answer, error) {
				if err := a.confined(ctx); err != nil {
					return doctor.Accepted, err
				}
				return try(ctx, name)
			},
		}
	}
	return []doctor.Policy{
		policy("evictd-evicts-on-own-node", "evictd's token can evict the pods of every node", a.tryOtherNode),
		policy("evictd-on-own-node", "evictd's token can evict without naming a UID, and delete pods of every node where an overlay lets it delete", a.tryAtOnce),
		policy("evictd-taints-own-node", "evictd's token can change every node where an overlay lets it write to nodes", a.tryNode),
		policy("evictd-events-of-own-node", "evictd's token can write Events in the name of other components", a.tryEvent),
	}
}

// confined returns an error unless the account is one that the policies may confine.
func (a *seenAPI) confined(ctx context.Context) error {
	who, err := a.account(ctx)
	if err == nil && !who.Service {
		err = fmt.Errorf("%s is no service account, and the policies do not confine it", who.Name)
	}
	return err
}

// admission is what the doctor reads of a ValidatingAdmissionPolicy, which has a failure policy, and
// of its binding, which has the rest.
type admission struct {
	Spec struct {
		FailurePolicy     string   `json:"failurePolicy"`
		PolicyName        string   `json:"policyName"`
		ValidationActions []string `json:"validationActions"`
	} `json:"spec"`
}

// readPolicy says what is wrong with a policy or its binding; "" is nothing.
func (a *seenAPI) readPolicy(ctx context.Context, name string) (fault string, err error) {
	var policy, binding admission
	for _, one := range []struct {
		path string
		into *admission
	}{{"validatingadmissionpolicies", &policy}, {"validatingadmissionpolicybindings", &binding}} {
		err := send(ctx, a.core.Get().AbsPath("/apis/admissionregistration.k8s.io/v1", one.path, name), one.into)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Sprintf("%s/%s is not there", one.path, name), nil
		case err != nil:
			return "", fmt.Errorf("reading %s/%s: %w", one.path, name, err)
		}
	}
	switch {
	case binding.Spec.PolicyName != name:
		return fmt.Sprintf("the binding is of the policy %q", binding.Spec.PolicyName), nil
	case !slices.Contains(binding.Spec.ValidationActions, "Deny"):
		return fmt.Sprintf("the binding does not deny: its validationActions are %v", binding.Spec.ValidationActions), nil
	case policy.Spec.FailurePolicy != "Fail":
		return "the policy lets through what it cannot judge: its failurePolicy is " + policy.Spec.FailurePolicy, nil
	}
	return "", nil
}

// tryOtherNode evicts a pod of another node, as a dry run.
func (a *seenAPI) tryOtherNode(ctx context.Context, policy string) (doctor.Answer, error) {
	var pods struct {
		Items []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"items"`
	}
	err := send(ctx, a.core.Get().AbsPath("/api/v1/pods").Param("fieldSelector", "spec.nodeName!="+a.flags.nodeName).Param("limit", "1"), &pods)
	switch {
	case err != nil:
		return doctor.Accepted, fmt.Errorf("looking for a pod of another node: %w", err)
	case len(pods.Items) == 0:
		return doctor.Accepted, fmt.Errorf("%w: no pod is on another node", doctor.ErrNothingToTry)
	}
	pod := &pods.Items[0].Metadata
	result := a.evictDry(ctx, evict.Request{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	if result.Outcome == evict.Gone { // the policy does not apply to a pod that is gone
		return doctor.Accepted, fmt.Errorf("%w: the pod of another node that was tried has just ended", doctor.ErrNothingToTry)
	}
	return answerOf(policy, &result)
}

// tryAtOnce evicts a pod that does not exist, with a grace period of 0, as a dry run.
func (a *seenAPI) tryAtOnce(ctx context.Context, policy string) (doctor.Answer, error) {
	zero := int64(0)
	result := a.evictDry(ctx, evict.Request{Namespace: namespaceToTry(), Name: "evictd-doctor-no-pod", UID: "none", GraceSeconds: &zero})
	return answerOf(policy, &result)
}

// namespaceToTry is where things are tried that do not exist.
func namespaceToTry() string { return cmp.Or(ownNamespace(), metav1.NamespaceDefault) }

// evictDry sends an eviction as a dry run.
func (a *seenAPI) evictDry(ctx context.Context, request evict.Request) evict.Result {
	request.DryRun = true
	return evict.New(a.core, time.Now).Evict(ctx, request)
}

// answerOf returns the policy's answer. The API server asks the policies before it looks for the
// pod and its budgets: any other refusal is later.
func answerOf(policy string, result *evict.Result) (doctor.Answer, error) {
	switch {
	case result.NoRight:
		return doctor.RefusedByRBAC, nil
	case result.Outcome == evict.Denied && refusedBy(policy, result.Message):
		return doctor.RefusedByPolicy, nil
	case result.Outcome == evict.Denied, result.Outcome == evict.Throttled, result.Outcome == evict.Unconfirmed:
		return doctor.Accepted, errors.New(result.Message)
	default:
		return doctor.Accepted, nil
	}
}

// refusedBy reports whether a message of the API server is that policy's denial.
func refusedBy(policy, message string) bool { return strings.Contains(message, "'"+policy+"'") }

// tryNode adds an annotation to the node, as a dry run, where the account may write to it at all.
func (a *seenAPI) tryNode(ctx context.Context, policy string) (doctor.Answer, error) {
	allowed, err := a.clients.may(ctx, &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes", Name: a.flags.nodeName})
	if err != nil {
		return doctor.Accepted, err
	}
	if !allowed {
		return doctor.RefusedByRBAC, nil
	}
	return tryRaw(ctx, policy, a.core.Patch(types.MergePatchType).AbsPath("/api/v1/nodes", a.flags.nodeName).
		Body([]byte(`{"metadata":{"annotations":{"evictd.dev/doctor":"dry run"}}}`)))
}

// tryEvent writes an Event of another component, as a dry run.
func (a *seenAPI) tryEvent(ctx context.Context, policy string) (doctor.Answer, error) {
	namespace := namespaceToTry()
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Event","metadata":{"generateName":"evictd-doctor-","namespace":%q},`+
		`"involvedObject":{"kind":"Pod","namespace":%q,"name":"evictd-doctor-no-pod"},`+
		`"source":{"component":"evictd-doctor"},"reason":"DryRun","type":"Normal"}`, namespace, namespace)
	return tryRaw(ctx, policy, a.core.Post().AbsPath("/api/v1/namespaces", namespace, "events").
		SetHeader("Content-Type", mediaJSON).Body([]byte(text)))
}

// tryRaw sends a request as a dry run.
func tryRaw(ctx context.Context, policy string, request *rest.Request) (doctor.Answer, error) {
	err := send(ctx, request.Param("dryRun", metav1.DryRunAll), nil)
	switch {
	case err == nil:
		return doctor.Accepted, nil
	case refusedBy(policy, err.Error()):
		return doctor.RefusedByPolicy, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot "): // RBAC's words: User … cannot create resource …
		return doctor.RefusedByRBAC, nil
	default:
		return doctor.Accepted, err
	}
}
