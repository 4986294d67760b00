package state

import (
	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
)

// State is all that is kept. The zero value knows of nothing, which is not the same as that
// nothing is known. The entries of each list are the oldest first.
type State struct {
	// Incidents are those that are open.
	Incidents []incident.State `json:"incidents,omitempty"`
	// InFlight are the victims in flight, those among them whose requests have no known outcome.
	InFlight inflight.State `json:"inFlight,omitzero"`
	// Cooldown is which pods may not be evicted for now.
	Cooldown cooldown.State `json:"cooldown,omitzero"`
}
