package doctor

import (
	"context"
	"fmt"
	"strings"
)

// Stop is the ConfigMap that stops all agents while it exists.
type Stop struct {
	// ConfigMap is its namespace and name.
	ConfigMap string
	// Exists says that it is there, and Reason is the one that it gives; "" for none.
	Exists bool
	Reason string
}

// The names of the findings about whether evictd acts.
const (
	stopName = "act/stop"
	nodeAct  = "act/nodeSelector"
)

func actingNames(s *Subject) []string {
	if s.API.Lacks == nil {
		return []string{stopName}
	}
	return []string{stopName, nodeAct}
}

// acts returns whether evictd is stopped, and whether it acts on this node where a field says on
// which it does.
func acts(ctx context.Context, api *API) []Finding {
	findings := []Finding{stopped(ctx, api.Stop)}
	if api.Lacks != nil {
		findings = append(findings, selected(ctx, api.Lacks))
	}
	return findings
}

func stopped(ctx context.Context, look func(context.Context) (Stop, error)) Finding {
	stop, err := look(ctx)
	switch {
	case err != nil:
		return Finding{stopName, Unknown, oneLine(err), "evictd does not act while it does not know", "see the lines right/… configmaps"}
	case stop.Exists:
		found := "ConfigMap " + stop.ConfigMap + " exists"
		if stop.Reason != "" {
			found += ": " + oneLine(fmt.Errorf("%s", stop.Reason))
		}
		return Finding{stopName, Degraded, found, "evictd acts on no node", "delete it when evictd should act again"}
	default:
		return fine(stopName, "there is no ConfigMap "+stop.ConfigMap+", which would stop evictd on all nodes")
	}
}

func selected(ctx context.Context, look func(context.Context) ([]string, error)) Finding {
	lacks, err := look(ctx)
	switch {
	case err != nil:
		return Finding{nodeAct, Unknown, oneLine(err), "evictd does not act while it does not know", "check --node-name, and the right to get nodes"}
	case len(lacks) > 0:
		return fine(nodeAct, "the node lacks "+strings.Join(lacks, " and ")+": evictd does not act on it")
	default:
		return fine(nodeAct, "the node has all of its labels: evictd acts on it unless another line says otherwise")
	}
}
