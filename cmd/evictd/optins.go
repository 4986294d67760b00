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

// optIns are what is off by default and may be switched on at any time by an edit of the
// file: parts that are there and send nothing.
type optIns struct {
	taints  *taint.Keeper
	permits *permits.Semaphore // nil where evictd's own namespace is not known
}

// ownNamespace is where the permits' Leases are; "" outside a cluster.
func ownNamespace() string { return self().Namespace }

// checkOptIns refuses what is configured and cannot be done here.
func checkOptIns(c *config.EvictdConfiguration) error {
	if c.EvictionPermits.PerWorkload > 0 && ownNamespace() == "" {
		return errors.New("evictionPermits.perWorkload is set and evictd's own namespace, where its Leases are, is not known: " +
			"set the environment variable POD_NAMESPACE, as deploy/daemonset.yaml does")
	}
	return nil
}

// newOptIns makes both. They talk to the API server as evictions do, which they precede.
func (d *daemon) newOptIns(policy *agent.Policy) optIns {
	made := optIns{taints: taint.New(taint.Options{
		Nodes: d.clients.evicting.CoreV1().Nodes(), Node: d.flags.nodeName, Recorder: d.recorder,
	})}
	if ownNamespace() == "" {
		return made
	}
	made.permits = permits.New(permits.Options{
		Leases: d.clients.evicting.CoordinationV1().Leases(ownNamespace()), Node: d.flags.nodeName,
		Now: time.Now, Random: rand.Float64, Recorder: d.recorder, Restore: policy.PermitsPerWorkload > 0,
	})
	return made
}
