package main

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/taint"
)

// optIns are the features that are off by default and that an edit of the file may switch on
// at any time. They always exist, but send nothing while off.
type optIns struct {
	taints  *taint.Keeper
	permits *permits.Semaphore // nil where evictd's own namespace is unknown
}

// ownNamespace is where the permits' Leases are; "" outside a cluster.
func ownNamespace() string { return self().Namespace }

// checkOptIns rejects what is configured but cannot work here.
func checkOptIns(c *config.EvictdConfiguration) error {
	if c.EvictionPermits != (config.EvictionPermits{}) && ownNamespace() == "" {
		return errors.New("evictionPermits is set and evictd's own namespace, where its Leases are, is not known: " +
			"set the environment variable POD_NAMESPACE, as deploy/daemonset.yaml does")
	}
	return nil
}

// newOptIns creates both. They use the same client as evictions, which they precede.
func (d *daemon) newOptIns(policy *agent.Policy) optIns {
	made := optIns{taints: taint.New(taint.Options{
		Nodes: d.clients.evicting.Nodes(), Node: d.flags.nodeName, Recorder: d.recorder,
	})}
	if ownNamespace() == "" {
		return made
	}
	made.permits = permits.New(permits.Options{
		Leases: d.clients.evicting.Leases(ownNamespace()), Node: d.flags.nodeName,
		Now: time.Now, Random: rand.Float64, Recorder: d.recorder, Restore: policy.Permits.Any(),
	})
	return made
}
