package doctor

import (
	"cmp"
	"context"
	"strings"
)

// Right is one right that evictd needs.
type Right struct {
	// Name is the verb and the resource, such as "create pods/eviction".
	Name string
	// Without is what happens where the account lacks it.
	Without string
	// Grants is what to apply for it; "" is the shipped ClusterRole.
	Grants string
	// Allowed asks the API server.
	Allowed func(context.Context) (bool, error)
}

// OptIn is a field of the configuration that needs rights of its own.
type OptIn struct {
	// Field is the field's name.
	Field string
	// With is what evictd does where it has all of them, Without where one is missing.
	With, Without string
	// Grants is what to apply for the rights.
	Grants string
	// Rights are what it needs.
	Rights []Right
}

func rightName(r *Right) string { return "right/" + r.Name }

func right(ctx context.Context, r *Right) Finding {
	allowed, err := r.Allowed(ctx)
	switch {
	case err != nil:
		return Finding{rightName(r), Unknown, oneLine(err), "if it is missing, " + r.Without, "run evictd doctor again"}
	case !allowed:
		return Finding{
			rightName(r), Missing, "the account lacks it", r.Without,
			"apply " + cmp.Or(r.Grants, "the ClusterRole and the ClusterRoleBinding of deploy/daemonset.yaml"),
		}
	default:
		return fine(rightName(r), "granted")
	}
}

func optInName(o *OptIn) string { return "opt-in/" + o.Field }

// optIn returns the line of a field that is set.
func optIn(ctx context.Context, o *OptIn) Finding {
	var missing []string
	for i := range o.Rights {
		r := &o.Rights[i]
		allowed, err := r.Allowed(ctx)
		if err != nil {
			return Finding{optInName(o), Unknown, oneLine(err), "if a right is missing, " + o.Without, "run evictd doctor again"}
		}
		if !allowed {
			missing = append(missing, r.Name)
		}
	}
	if len(missing) > 0 {
		return Finding{optInName(o), Missing, "the account may not " + strings.Join(missing, ", nor "), o.Without, "apply " + o.Grants}
	}
	return fine(optInName(o), "its rights are granted: "+o.With)
}
