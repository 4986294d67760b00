package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/brake"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/taint"
)

// optIns are what is off by default and may be switched on at any time by an edit of the
// file: parts that are there and send nothing.
type optIns struct {
	taints *taint.Keeper
	brake  *brake.Brake // nil where evictd's own namespace is not known
}

// ownNamespace is where the brake's Leases are; "" outside a cluster.
func ownNamespace() string { return os.Getenv("POD_NAMESPACE") }

// checkOptIns refuses what is configured and cannot be done here.
func checkOptIns(c *config.EvictdConfiguration) error {
	if c.Brake.SlotsPerWorkload > 0 && ownNamespace() == "" {
		return errors.New("brake.slotsPerWorkload is set and evictd's own namespace, where its Leases are, is not known: " +
			"set the environment variable POD_NAMESPACE, as deploy/daemonset.yaml does")
	}
	return nil
}

// newOptIns makes both. They talk to the API server as evictions do, which they precede.
func (d *daemon) newOptIns(policy *agent.Policy) (made optIns, err error) {
	made.taints, err = taint.New(taint.Options{
		Nodes: d.clients.evicting.CoreV1().Nodes(), Node: d.flags.nodeName, Random: rand.Float64, Recorder: d.recorder,
	})
	if err != nil || ownNamespace() == "" {
		return made, err
	}
	made.brake, err = brake.New(brake.Options{
		Leases: d.clients.evicting.CoordinationV1().Leases(ownNamespace()), Node: d.flags.nodeName,
		Now: time.Now, Random: rand.Float64, Recorder: d.recorder, Restore: policy.SlotsPerWorkload > 0,
	})
	if err != nil {
		return made, fmt.Errorf("preparing brake.slotsPerWorkload: %w", err)
	}
	return made, nil
}
