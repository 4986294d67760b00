package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/httpd"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// daemon is the object graph of `evictd run`.
type daemon struct {
	flags       *runFlags
	inForce     atomic.Pointer[config.EvictdConfiguration]
	logger      *zap.Logger
	clients     *clients
	host        *host
	events      *record.Events
	recorder    *record.Recorder
	wakers      *pressure.Wakers
	pods        *nodepods.Pods
	taints      *taint.Keeper
	acting      *acting.Acting
	actingKnown atomic.Bool // once it has been known whether evictd acts
	agent       *agent.Agent
	server      *httpd.Server
	refused     atomic.Pointer[refusal]
}

// build opens what can be opened and connects the parts. It starts only the queue of events.
func build(flags *runFlags, loaded *config.EvictdConfiguration, logger *zap.Logger) (d *daemon, err error) {
	d = &daemon{flags: flags, logger: logger}
	d.inForce.Store(loaded)
	if d.clients, err = newClients(flags, "", d.apiError); err != nil {
		return nil, err
	}
	if d.host, err = openHost(flags, loaded); err != nil {
		return nil, err
	}
	d.pods = nodepods.New(d.clients.Watching.Pods(), nodepods.Options{
		NodeName: flags.nodeName, Now: time.Now, LabelKeys: loaded.LabelKeys(), OnError: d.watchFailed, OnOOMKilled: d.oomKilled,
	})
	registry := prometheus.NewRegistry()
	d.openRecorder(registry)
	policy := d.policyOf(loaded, d.host.sampler.Load())
	d.recorder.InForce(policy.Thresholds, false)
	d.wakers = pressure.OpenWakers(flags.hostRoot, d.host.kubepods)
	for _, state := range d.wakers.States() {
		d.recorder.Wakeups(state)
	}
	d.taints = taint.New(d.clients.Evicting.Nodes(), flags.nodeName, d.recorder) // by the client of evictions, which it precedes
	d.acting = acting.New(d.clients.Watching.ConfigMaps(stopNamespace()), stopNamespace(), time.Now)
	d.openAgent(policy)
	d.openServer(registry)
	return d, nil
}

// openRecorder prepares metrics, log and Events.
func (d *daemon) openRecorder(registry *prometheus.Registry) {
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.events = record.NewEvents(d.clients.Telling.EventSink(), d.flags.nodeName)
	reader := hostinfo.New(d.flags.hostRoot, func(err error) { d.recorder.Failed(record.SourceHost, err) })
	d.recorder = record.New(d.logger, registry, d.events, record.Settings{
		NodeName: d.flags.nodeName, Version: buildVersion(), Now: time.Now, Host: reader, OOMKills: d.oomKills, WatchAge: d.pods.Age,
	})
}

// apiError counts a failed request. No client sends anything before the recorder exists.
func (d *daemon) apiError(request string, code int) { d.recorder.APIError(request, code) }

func (d *daemon) watchFailed(err error) { d.recorder.Failed(record.FailedWatch, err) }

// openAgent creates the loop.
func (d *daemon) openAgent(policy agent.Policy) {
	disks := &disk{clients: d.clients, flags: d.flags, inForce: d.inForce.Load, dedicatedImageFS: d.host.dedicatedImageFS}
	gap := &kubeletGap{sample: d.host.read}
	options := agent.Options{
		Policy:     policy,
		Self:       self(),
		Sampler:    d.host.sampler.Load(),
		Pods:       d.pods,
		Cgroups:    d.host.tree,
		Disk:       disks,
		Images:     disks,
		Evictor:    evict.New(d.clients.Evicting.Core(), time.Now),
		Recorder:   d.recorder,
		Wake:       d.wakers.Wake(),
		Acting:     d.acting.Changed(),
		KubeletGap: gap.at,
		Random:     rand.Float64,
		OOMKills:   d.oomKills,
		Held:       d.held,
		Taints:     d.taints,
	}
	d.remember(&options)
	d.agent = agent.New(options)
}

// openServer prepares the pages.
func (d *daemon) openServer(registry *prometheus.Registry) {
	d.server = httpd.New(registry, httpd.Options{
		Addr: d.flags.address,
		Live: func() error { return d.agent.Alive(time.Now()) },
		Ready: func() error {
			return errors.Join(d.refused.Load().ready(), d.agent.Ready(), d.findsPods(d.pods.List()), d.readyToAct())
		},
		Decisions: d.recorder.Decisions(),
		Status:    status.Handler(d.status),
	})
}

// self returns this pod's identity from the downward API; the zero value outside a cluster.
func self() nodepods.Self {
	return nodepods.Self{
		UID:       os.Getenv("POD_UID"),
		Namespace: os.Getenv("POD_NAMESPACE"),
		Name:      os.Getenv("POD_NAME"),
	}
}

// findsPods returns an error while pods run and none of them has a cgroup below that of all pods:
// it is another kubelet's, or the remains of one.
func (d *daemon) findsPods(pods []*nodepods.Pod) error {
	running := 0
	for _, pod := range pods {
		if len(pod.RunningContainers) == 0 {
			continue
		}
		if found, err := d.host.tree.Present(pod.CgroupUID); found || err != nil {
			return err
		}
		running++
	}
	if running == 0 {
		return nil
	}
	return fmt.Errorf("none of the %d pods that run here has a cgroup below %s: --kubepods-cgroup says where they are", running, d.host.kubepods)
}

// held returns the detailed figures of a pod's cgroup; nil where it cannot be read, for
// example because the pod has ended.
func (d *daemon) held(uid string) *usage.Detail {
	detail, err := d.host.tree.Detail(uid)
	if err != nil {
		return nil
	}
	return detail
}

// followWakers lets the kernel wake the loop until the context ends. Its faults do not end
// evictd.
func (d *daemon) followWakers(ctx context.Context) error {
	if err := d.wakers.Run(ctx, d.recorder); err != nil {
		d.logger.Warn("closing the wake-ups", zap.Error(err))
	}
	return nil
}

// oomKilled records a container that the kernel has killed for want of memory, by its pod's status.
func (d *daemon) oomKilled(pod *nodepods.Pod, killed nodepods.OOMKilled) {
	d.recorder.OOMKilled(pod.Key(), pod.UID, killed.Container)
}

// oomKills returns the kernel's own count since boot.
func (d *daemon) oomKills() (int64, error) { return pressure.OOMKills(d.flags.hostRoot) }

// stopNamespace is where the ConfigMap is that stops evictd: its own namespace, and outside of a
// pod that of the shipped manifest.
func stopNamespace() string { return cmp.Or(self().Namespace, "evictd") }

// actingBy returns whether evictd acts, by a configuration and by what is known now. Only the loop
// asks, by the configuration that it has in force.
func (d *daemon) actingBy(c *config.EvictdConfiguration) acting.State {
	s := d.acting.Of(c.DryRun, d.flags.dryRun)
	if !s.Reason.Unknown() {
		d.actingKnown.Store(true)
	}
	return s
}

// readyToAct returns an error until it is known for the first time whether evictd acts: a rollout to
// nodes on which it cannot know ends at the first of them. What is not known later is no matter of
// the process, as where the API server fails.
func (d *daemon) readyToAct() error {
	if d.actingKnown.Load() {
		return nil
	}
	return errors.New("it is not known yet whether evictd may act; its log says why if that lasts")
}
