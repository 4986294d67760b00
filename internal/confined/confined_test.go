package confined

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// answering is a policy with a fixed answer.
func answering(name string, answer Answer, err error) Policy {
	return Policy{Name: name, Without: "everything goes", Try: func(context.Context) (Answer, error) { return answer, err }}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	refuses, needless, lets := answering("refuses", RefusedByPolicy, nil), answering("needless", RefusedByRBAC, nil), answering("lets", Accepted, nil)
	vacuous := answering("vacuous", Accepted, fmt.Errorf("%w: one node", ErrNothingToTry))
	silent := answering("silent", Accepted, errors.New("no answer\nat all"))
	for name, c := range map[string]struct {
		policies []Policy
		want     Result
	}{
		"all refuse":             {[]Policy{refuses, needless}, Result{Confined, ""}},
		"one lets it through":    {[]Policy{refuses, silent, lets}, Result{Unconfined, "lets does not refuse what it must: everything goes"}},
		"two let it through":     {[]Policy{lets, lets}, Result{Unconfined, "lets does not refuse what it must: everything goes; lets does not refuse what it must: everything goes"}},
		"nothing to try it with": {[]Policy{refuses, vacuous}, Result{Unknown, "vacuous could not be tried: there is nothing that the policy would refuse: one node"}},
		"no answer":              {[]Policy{silent, refuses}, Result{Unknown, "silent could not be tried: no answer; at all"}},
		"no policy":              {nil, Result{Unknown, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Check(t.Context(), c.policies); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
