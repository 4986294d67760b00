package main

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evictd/evictd/internal/confined"
	"github.com/evictd/evictd/internal/doctor"
)

// policies are the admission policies of deploy/daemonset.yaml. Each is read where the account may
// read it, and is tried otherwise.
func (a *seenAPI) policies() []doctor.Policy {
	p := &prober{clients: a.clients, core: a.core, node: a.flags.nodeName}
	var all []doctor.Policy
	for _, one := range p.policies() {
		try := one.Try
		one.Try = func(ctx context.Context) (confined.Answer, error) {
			if err := p.confinable(ctx); err != nil {
				return confined.Accepted, err
			}
			return try(ctx)
		}
		all = append(all, doctor.Policy{
			Policy: one, Read: func(ctx context.Context) (string, error) { return a.readPolicy(ctx, one.Name) },
		})
	}
	return all
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
