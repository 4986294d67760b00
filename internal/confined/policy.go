package confined

import (
	"context"
	"errors"
	"strings"

	"github.com/evictd/evictd/internal/wording"
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
	// Try sends a server-side dry run that the policy must refuse. The error says why it could not
	// be tried, such as [ErrNothingToTry].
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

// State says whether evictd is confined to its node.
type State uint8

// The states.
const (
	// Unknown: not every policy could be tried, and those that were refused their dry runs.
	Unknown State = iota
	// Confined: every policy refused its dry run, or RBAC did.
	Confined
	// Unconfined: a policy did not refuse its dry run.
	Unconfined
)

// Result is what became of one check.
type Result struct {
	State State
	// Detail names the policies that did not refuse, with what follows, or says why the state is
	// unknown, in one line; "" where the state is Confined.
	Detail string
}

// Check tries each of the policies.
func Check(ctx context.Context, all []Policy) Result {
	var lacking, untried []string
	for i := range all {
		answer, err := all[i].Try(ctx)
		switch {
		case err != nil:
			untried = append(untried, all[i].Name+" could not be tried: "+err.Error())
		case answer == Accepted:
			lacking = append(lacking, all[i].Name+" does not refuse what it must: "+all[i].Without)
		}
	}
	switch {
	case len(lacking) > 0:
		return Result{Unconfined, joined(lacking)}
	case len(untried) > 0 || len(all) == 0:
		return Result{Unknown, joined(untried)}
	default:
		return Result{State: Confined}
	}
}

// joined keeps texts, which may have a server's text in them, to one line.
func joined(texts []string) string {
	return wording.OneLine(strings.ReplaceAll(strings.Join(texts, "; "), "\n", "; "))
}
