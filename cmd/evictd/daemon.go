package main

import (
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
	"github.com/evictd/evictd/internal/state"
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
	state       *state.Store // nil where none is kept
	server      *httpd.Server
	refused     refusal
	compared    atomic.Pointer[kubeletThresholds] // nil where the kubelet's configuration is not known
}

// build opens what can be opened and connects the parts. It starts only the queue of events.
func build(ctx context.Context, flags *runFlags, loaded *config.EvictdConfiguration, logger *zap.Logger) (*daemon, error) {
	d := &daemon{flags: flags, logger: logger}
	d.inForce.Store(loaded)
	policy, err := d.policyOf(loaded)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err = d.openRecorder(registry); err != nil {
		return nil, err
	}
	if d.host, err = openHost(&flags.whereFlags, loaded, signalsOf(policy.Thresholds)); err != nil {
		return nil, err
	}
	d.recorder.InForce(policy.Thresholds, false)
	d.checkKubeletThresholds(loaded, &policy, d.host.current())
	d.openWakers()
	if err := d.connect(ctx, policy, registry); err != nil {
		return nil, err
	}
	return d, nil
}

// openRecorder prepares metrics, log and Events.
func (d *daemon) openRecorder(registry *prometheus.Registry) (err error) {
	if d.clients, err = newClients(&d.flags.whereFlags, d.apiError); err != nil {
		return err
	}
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.events = record.NewEvents(d.clients.telling.EventSink(), d.flags.nodeName, "evictd", time.Now)
	d.recorder = record.New(d.logger, registry, d.events, record.Settings{
		NodeName: d.flags.nodeName, Version: buildVersion(), Self: self(), Now: time.Now,
		MemoryUsed: hostinfo.New(d.flags.hostRoot, d.flags.kubepods, nil).Memory, OOMKills: d.oomKills, WatchAge: d.watchAge,
	})
	return nil
}

// apiError counts a failed request. No client sends anything before the recorder exists.
func (d *daemon) apiError(request string, code int) { d.recorder.APIError(request, code) }

func (d *daemon) watchFailed(err error) { d.recorder.Failed(record.FailedWatch, err) }

// watchAge returns how long ago the watch of the pods last delivered anything; false before there is one.
func (d *daemon) watchAge() (time.Duration, bool) {
	if d.pods == nil {
		return 0, false
	}
	return d.pods.Age()
}

// connect creates the parts that watch, decide and serve.
func (d *daemon) connect(ctx context.Context, policy agent.Policy, registry *prometheus.Registry) (err error) {
	d.pods = nodepods.New(d.clients.watching.Pods(), nodepods.Options{
		NodeName: d.flags.nodeName, Now: time.Now, LabelKeys: d.inForce.Load().LabelKeys(), OnError: d.watchFailed, OnOOMKilled: d.oomKilled,
	})
	d.taints = taint.New(d.clients.evicting.Nodes(), d.flags.nodeName, d.recorder) // by the client of evictions, which it precedes
	d.acting = acting.New(d.clients.watching.ConfigMaps(stopNamespace()), stopNamespace(), time.Now)
	d.recorder.SetHost(hostinfo.New(d.flags.hostRoot, d.host.kubepods, func(err error) { d.recorder.Failed(record.SourceHost, err) }))
	options := agent.Options{
		Policy:     policy,
		Self:       self(),
		Sampler:    d.host.current(),
		Pods:       d.pods,
		Cgroups:    d.host.tree,
		Disk:       newDisk(d.clients, &d.flags.whereFlags, d.inForce.Load, d.dedicatedImageFS),
		Images:     &images{d.clients, d.flags.nodeName, d.host.dedicatedImageFS},
		Evictor:    evict.New(d.clients.evicting.Core(), time.Now),
		Recorder:   d.recorder,
		Wake:       d.wakers.Wake(),
		Acting:     d.acting.Changed(),
		KubeletGap: d.host.kubeletGap().at,
		Random:     rand.Float64,
		OOMKills:   d.oomKills,

		Held:   d.held,
		Taints: d.taints,
	}
	d.remember(ctx, &options)
	if d.agent, err = agent.New(options); err != nil {
		return err
	}
	d.server = httpd.New(registry, httpd.Options{
		Addr: d.flags.address,
		Live: func() error { return d.agent.Alive(time.Now()) },
		Ready: func() error {
			return errors.Join(d.refused.ready(), d.agent.Ready(), d.findsPods(d.pods.List()), d.readyToAct())
		},
		Note:      d.refused.sentence,
		Decisions: d.recorder.Decisions(),
		Status:    status.Handler(d.status),
	})
	return nil
}

// dedicatedImageFS reports whether images have their own filesystem, where no threshold asks for one too: the
// pods' disk use may be asked for all the same.
func (d *daemon) dedicatedImageFS() (bool, error) {
	dedicated, err := d.host.dedicatedImageFS()
	if errors.Is(err, pressure.ErrUnasked) {
		return d.host.dedicatedImageFSNow(d.inForce.Load())
	}
	return dedicated, err
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
