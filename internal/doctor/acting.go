package doctor

import (
	"context"
	"fmt"
)

// Stop is the ConfigMap that stops all agents while it exists.
type Stop struct {
	// ConfigMap is its namespace and name.
	ConfigMap string
	// Exists says that it is there, and Reason is the one that it gives; "" for none.
	Exists bool
	Reason string
}

// stopName is the name of the finding about whether evictd is stopped.
const stopName = "act/stop"

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
