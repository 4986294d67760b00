package doctor

import (
	"context"
	"errors"
)

// ErrNothingToTry is why a policy could not be tried although evictd may: there is nothing that it
// would have to refuse now.
var ErrNothingToTry = errors.New("there is nothing that the policy would refuse")

// Policy is one admission policy of deploy/daemonset.yaml.
type Policy struct {
	// Name is that of the policy and of its binding.
	Name string
	// Without is what a holder of evictd's token could do without it.
	Without string
	// Read reads the policy and its binding. Fault says what is wrong with them; "" where they
	// are as shipped. The error says why they could not be read, such as for want of a right.
	Read func(context.Context) (fault string, err error)
	// Try sends a server-side dry run that the policy must refuse. It is used where the policy
	// cannot be read: evictd's account may not. The error says why it could not be tried, such as
	// [ErrNothingToTry].
	Try func(context.Context) (Answer, error)
}

// Answer is the answer to a dry run that a policy must refuse.
type Answer uint8

// The answers.
const (
	// Accepted: the policy did not refuse it.
	Accepted Answer = iota
	// RefusedByPolicy: the policy is in force.
	RefusedByPolicy
	// RefusedByRBAC: the account lacks the right that the policy confines.
	RefusedByRBAC
)

func policyName(p *Policy) string { return "policy/" + p.Name }

func policy(ctx context.Context, p *Policy) Finding {
	const do = "apply deploy/daemonset.yaml; ValidatingAdmissionPolicies need Kubernetes 1.30"
	fault, unread := p.Read(ctx)
	switch {
	case unread == nil && fault == "":
		return fine(policyName(p), "it is there, and its binding denies")
	case unread == nil:
		return Finding{policyName(p), Missing, fault, p.Without, do}
	}
	answer, untried := p.Try(ctx)
	switch {
	case untried == nil && answer == RefusedByPolicy:
		return fine(policyName(p), "in force: it refused a dry run that it must refuse")
	case untried == nil && answer == RefusedByRBAC:
		return fine(policyName(p), "not needed: RBAC refuses what it confines")
	case untried == nil:
		return Finding{policyName(p), Missing, "not in force for this account: a dry run was not refused", p.Without, do}
	case errors.Is(untried, ErrNothingToTry):
		return Finding{
			policyName(p), Degraded, "not read and not tried: " + oneLine(untried), "if it is missing, " + p.Without,
			"kubectl get validatingadmissionpolicy,validatingadmissionpolicybinding " + p.Name,
		}
	default:
		return Finding{
			policyName(p), Unknown, "not read: " + oneLine(unread) + "; not tried: " + oneLine(untried), "if it is missing, " + p.Without,
			"kubectl get validatingadmissionpolicy,validatingadmissionpolicybinding " + p.Name,
		}
	}
}
