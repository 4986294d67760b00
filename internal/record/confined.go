package record

import (
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/confined"
)

// Confined notes whether the API server's policies confine evictd to its node, by the one check after
// the start.
func (r *Recorder) Confined(result confined.Result) {
	switch result.State {
	case confined.Confined:
		r.logger.Info(messageConfined)
		r.metrics.confined.WithLabelValues().Set(1)
	case confined.Unconfined:
		r.logger.Warn(messageUnconfined, zap.String(keyDetail, result.Detail+
			"; apply the ValidatingAdmissionPolicies of deploy/daemonset.yaml and their bindings; "+
			"their matchConditions must name this account (docs/security.md, Own node only)"))
		r.metrics.confined.WithLabelValues().Set(0)
	default:
		r.logger.Info(messageConfinedOrNot, zap.String(keyDetail, result.Detail))
	}
}
