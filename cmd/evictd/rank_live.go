package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/snapshot"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// liveNode is this machine, as a node of a cluster.
type liveNode struct {
	flags   *rankFlags
	signal  pressure.Signal
	loaded  *config.EvictdConfiguration
	clients *clients
	host    *host
	disk    *disk // shared by all reads: it returns its previous figures when it is too slow
}

// openLive prepares to read the machine and makes sure that the node exists.
func openLive(ctx context.Context, flags *rankFlags, signal pressure.Signal) (*liveNode, error) {
	loaded, err := flags.load()
	if err != nil {
		return nil, err
	}
	clients, err := newClients(&flags.whereFlags, nil)
	if err != nil {
		return nil, err
	}
	if _, err = clients.getNode(ctx, flags.nodeName); err != nil {
		return nil, err
	}
	host, err := openHost(&flags.whereFlags, loaded, []pressure.Signal{signal})
	if err != nil {
		return nil, err
	}
	l := &liveNode{flags: flags, signal: signal, loaded: loaded, clients: clients, host: host}
	l.disk = newDisk(clients, &flags.whereFlags, func() *config.EvictdConfiguration { return loaded }, l.dedicatedImageFS)
	return l, nil
}

func (l *liveNode) close() error {
	l.disk.close()
	return l.host.close()
}

// detail reads the pod's cgroup below --host-root.
func (l *liveNode) detail(cgroupUID string) (*usage.Detail, error) {
	return l.host.tree.Detail(cgroupUID)
}

// inquiry uses the evictions' own client, which has no rate limit.
func (l *liveNode) inquiry() *inquiry {
	if l.flags.budgets == 0 {
		return nil
	}
	return newInquiry(evict.New(l.clients.evicting.Core(), time.Now), l.flags.budgets, l.flags.why, time.Now)
}

// look reads the node: what the ranking needs, or everything when it is saved.
func (l *liveNode) look(ctx context.Context) (*snapshot.NodeSnapshot, error) {
	pods, err := nodepods.List(ctx, l.clients.telling.Pods(), l.flags.nodeName)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", l.flags.nodeName, l.clients.explain(err, "list pods"))
	}
	now := time.Now()
	seen := &snapshot.NodeSnapshot{
		EvictdVersion: buildVersion(), Time: now.UTC(), NodeName: l.flags.nodeName,
		Self: self(), Configuration: l.loaded,
	}
	seen.SetPods(pods)
	seen.SetUsage(l.host.tree.Collect(nil))
	sample := l.host.current().Sample(now)
	seen.Signals = []snapshot.Signal{snapshot.NewSignal(l.signal, sample.Of(l.signal))}
	if l.flags.save != "" {
		seen.Signals = l.everySignal(now)
	}
	// The kubelet is called only where its response is needed.
	if l.flags.save != "" || l.signal.OnDisk() {
		seen.SetDisk(l.disk.Measure(ctx, seen.Pods))
	}
	return seen, nil
}

// everySignal reads each signal separately: one that cannot be prepared is unknown, and the
// others are still recorded.
func (l *liveNode) everySignal(now time.Time) []snapshot.Signal {
	var recorded []snapshot.Signal
	for _, signal := range rankable() {
		recorded = append(recorded, snapshot.NewSignal(signal, l.observe(signal, now)))
	}
	return recorded
}

func (l *liveNode) observe(signal pressure.Signal, now time.Time) pressure.Observation {
	seen, _ := l.host.observe(l.loaded, signal, now)
	return seen
}

// dedicatedImageFS reports whether images have their own filesystem, which only a sampler of
// a filesystem signal knows.
func (l *liveNode) dedicatedImageFS() (bool, error) {
	dedicated, err := l.host.dedicatedImageFS()
	if !errors.Is(err, pressure.ErrUnasked) {
		return dedicated, err
	}
	return l.host.dedicatedImageFSNow(l.loaded)
}
