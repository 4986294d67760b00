package agent

import (
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/pkg/pressure"
)

// Policy is what the configuration sets for the agent. It is replaced as a whole when the file
// changes.
type Policy struct {
	// Policy is what the configuration sets for each decision.
	decide.Policy

	// Transition is how long a signal stays reported as under pressure after its
	// last threshold was met.
	Transition time.Duration
	// CutGrace ends a soft threshold's grace period early when the hard one is
	// forecast to be met before it ends.
	CutGrace bool
	// Pacing bounds the time between two samples.
	Pacing pressure.Pacing
	// Limits bounds how many pods may be evicted in a time.
	Limits cooldown.Limits
	// ImageReclaim is when the kubelet removes images that no pod uses, see docs/adr/0010.
	ImageReclaim measure.ImageReclaim
}
