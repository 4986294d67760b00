package doctor

import (
	"context"
	"errors"

	"github.com/evictd/evictd/internal/confined"
)

// Policy is one admission policy of deploy/daemonset.yaml. It is tried where it cannot be read:
// evictd's account may not.
type Policy struct {
	confined.Policy

	// Read reads the policy and its binding. Fault says what is wrong with them; "" where they
	// are as shipped. The error says why they could not be read, such as for want of a right.
	Read func(context.Context) (fault string, err error)
}

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
	case untried == nil && answer == confined.RefusedByPolicy:
		return fine(policyName(p), "in force: it refused a dry run that it must refuse")
	case untried == nil && answer == confined.RefusedByRBAC:
		return fine(policyName(p), "not needed: RBAC refuses what it confines")
	case untried == nil:
		return Finding{policyName(p), Missing, "not in force for this account: a dry run was not refused", p.Without, do}
	case errors.Is(untried, confined.ErrNothingToTry):
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
