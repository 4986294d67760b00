package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/history"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/httpd"
	"github.com/evictd/evictd/internal/measure"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/internal/status"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/internal/wording"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// loopTimeout bounds how long the loop may take for a document, with a measurement of the disks.
const loopTimeout = 15 * time.Second

// daemon is the object graph of `evictd run`.
type daemon struct {
	flags    *runFlags
	inForce  atomic.Pointer[config.EvictdConfiguration]
	idle     atomic.Pointer[error] // why the file is refused; nil once one was valid
	refused  atomic.Pointer[error] // why the file as it is now is refused; nil where it is in force
	logger   *zap.Logger
	clients  *apiclient.Clients
	host     *host
	sampler  *pressure.Node // the loop's, which an edit replaces
	events   *record.Events
	recorder *record.Recorder
	history  *history.Writer // nil: none is kept
	wakers   *pressure.Wakers
	pods     *nodepods.Pods
	taints   *taint.Keeper
	acting   *acting.Acting
	agent    *agent.Agent
	servers  []*httpd.Server
}

// build opens what can be opened and connects the parts. It starts only the queue of events. What is open is
// closed with the process.
func build(ctx context.Context, flags *runFlags, loaded *config.EvictdConfiguration, logger *zap.Logger) (d *daemon, err error) {
	d = &daemon{flags: flags, logger: logger, host: &host{flags: flags}}
	d.inForce.Store(loaded)
	if os.Getenv("KUBERNETES_SERVICE_HOST") != "" && os.Getenv("POD_UID") == "" {
		return nil, errors.New("$POD_UID is not set, and evictd would not know its own pod: set it from metadata.uid, as deploy/daemonset.yaml does")
	}
	if d.clients, err = newClients(flags, ""); err != nil {
		return nil, err
	}
	if err = d.host.openPods(); err != nil {
		return nil, err
	}
	if d.sampler, err = d.host.openSampler(loaded, 0); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	d.openHistory()
	d.watchAndRecord(registry)
	policy := d.policyOf(loaded)
	d.recorder.InForce(policy.Thresholds, false)
	d.wakers = pressure.OpenWakers(flags.hostRoot, d.host.kubepods)
	for _, wake := range d.wakers.States() {
		d.recorder.Wakeups(wake)
	}
	d.agent = agent.New(d.options(policy))
	return d, d.listen(ctx, registry)
}

// listen opens the ports: one for what every client may read, and one for the document, which names pods.
func (d *daemon) listen(ctx context.Context, registry *prometheus.Registry) error {
	pages := map[string]http.Handler{
		"GET /metrics": promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
		"GET /livez":   httpd.Probe(func() error { return d.agent.Alive(time.Now()) }),
		"GET /readyz":  httpd.Probe(d.ready),
	}
	document := map[string]http.Handler{"GET /debug/status": httpd.Page(d.status)}
	if d.flags.debug == d.flags.address { // of one port
		maps.Copy(pages, document)
	}
	server, err := httpd.Listen(ctx, d.flags.address, pages)
	if err != nil {
		return fmt.Errorf("%w; name another address by --http-bind-address", err)
	}
	d.servers = append(d.servers, server)
	if d.flags.debug == d.flags.address || switchedOff(d.flags.debug) {
		return nil
	}
	if server, err = httpd.Listen(ctx, d.flags.debug, document); err != nil { // evictd evicts all the same
		d.logger.Error("the document is not served: evictd status and rank get no answer; name another address by --debug-bind-address", zap.Error(err))
		return nil
	}
	d.servers = append(d.servers, server)
	return nil
}

// switchedOff reports whether the document is served nowhere. An empty address would be a port on all of them.
func switchedOff(debugAddress string) bool { return debugAddress == "0" || debugAddress == "" }

// watchAndRecord creates what watches the API server, and metrics, log and Events.
func (d *daemon) watchAndRecord(registry *prometheus.Registry) {
	node := d.flags.nodeName
	d.pods = nodepods.New(d.clients.Watching.Pods(), nodepods.Options{
		NodeName: node, Self: os.Getenv("POD_UID"), Now: time.Now, LabelKeys: d.inForce.Load().LabelKeys(),
		OnError:     func(err error) { d.recorder.Failed(record.FailedWatch, err) },
		OnOOMKilled: func(pod *nodepods.Pod, killed nodepods.OOMKilled) { d.recorder.OOMKilled(pod, killed) },
	})
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	d.events = record.NewEvents(apiclient.EventSink{Client: d.clients.Telling}, node)
	reader := hostinfo.New(d.flags.hostRoot, func(err error) { d.recorder.Failed(record.FailedHost, err) })
	d.recorder = record.New(d.logger, registry, d.events, record.Settings{
		NodeName: node, Version: version, Now: time.Now, Host: reader, OOMKills: d.oomKills, WatchAge: d.pods.Age,
	})
	d.taints = taint.New(d.clients.Evicting.Nodes(), node, d.recorder, time.Now) // by the client of evictions, which it precedes
	d.acting = acting.New(d.clients.Watching.ConfigMaps(ownNamespace()), ownNamespace(), time.Now)
}

// options returns the agent's parts.
func (d *daemon) options(policy agent.Policy) agent.Options {
	options := agent.Options{
		Policy:     policy,
		Sample:     d.sampler.Sample,
		Pods:       d.pods,
		Measure:    measure.Options{Cgroups: d.host.tree, Disk: newDisk(d.clients, d.flags, d.inForce.Load), Fault: d.recorder.Failed},
		Evictor:    evict.New(d.clients.Evicting, time.Now),
		Recorder:   d.recorder,
		Wake:       d.wakers.Wake(),
		Acting:     d.acting.Changed(),
		KubeletGap: d.host.kubeletGap(),
		Random:     rand.Float64,
		OOMKills:   d.oomKills,
		Held:       d.host.tree.Detail,
		Taints:     d.taints,
		Save:       func(any) func() { return func() {} }, // nowhere, without a state directory
	}
	if d.history != nil {
		options.Keep = d.history.Document
	}
	d.remember(&options)
	return options
}

// openHistory opens the record, of which the log is a part. Without it evictd evicts all the same.
func (d *daemon) openHistory() {
	if d.flags.record == "" {
		return
	}
	opened, err := history.NewWriter(d.flags.record, history.Options{
		Now: time.Now, MaxSize: d.flags.recordMaxSize.Value(), Complete: d.complete, Failed: func(err error) { d.recorder.Failed(record.FailedRecord, err) },
	})
	if err != nil {
		d.logger.Error("no record is kept; name a directory that can be written to by --record", zap.Error(err))
		return
	}
	d.history, d.logger = opened, record.Also(d.logger, opened)
}

// remember gives the agent the state that the previous container wrote to the state
// directory, and a store that writes there. Without a directory, or a boot ID to identify
// it, there is neither. Without a state the start is a careful one.
func (d *daemon) remember(options *agent.Options) {
	dir := d.flags.stateDir
	if dir == "" {
		return // a check says what follows
	}
	bootID, err := state.BootID(d.flags.hostRoot)
	if err != nil {
		d.logger.Warn("starting without a state, and none is written", zap.Error(err))
		return
	}
	options.Save = state.NewStore(dir, bootID, func(err error) { d.recorder.Failed(record.FailedState, err) }).Save
	var kept agent.State
	switch err := state.Load(dir, bootID, &kept); {
	case err == nil:
		options.Remembered = &kept
		d.logger.Info("going on with the state of the container before",
			zap.Int("incidents", len(kept.Incidents)), zap.Int("in_flight", len(kept.InFlight.Victims)))
	case errors.Is(err, os.ErrNotExist):
		d.logger.Info("no state of a container before: the start is a careful one", zap.String("state_dir", dir))
	default:
		d.logger.Warn("the state of the container before is not used: the start is a careful one", zap.Error(err))
	}
}

// run starts everything and ends when the context does or a part fails.
func (d *daemon) run(ctx context.Context) error {
	c, now, left := d.inForce.Load(), d.sampler.Sample(time.Now()), status.Document{}
	left.AddSignals(&now, &pressure.Verdict{}, &decide.Policy{Thresholds: c.Thresholds()}, nil)
	d.logger.Info("started",
		zap.String("version", version),
		zap.String("revision", revision),
		zap.String("node", d.flags.nodeName),
		zap.String("kubepods", d.host.kubepods),
		zap.String("address", d.servers[0].Addr()),
		zap.Bool("dry_run", c.DryRun || d.flags.dryRun),
		zap.Stringers("thresholds", c.Thresholds()),
		zap.Any("signals", left.Signals))
	if d.history != nil {
		defer d.history.Start()()
	}
	group, ctx := errgroup.WithContext(ctx)
	parts := []func(context.Context) error{d.pods.Run, d.acting.Run, d.agent.Run, d.followConfiguration, d.checkAtStart, d.followWakers}
	for _, server := range d.servers {
		parts = append(parts, server.Run)
	}
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	err := group.Wait()
	d.events.Close()
	if err != nil {
		d.logger.Error("stopped by a fault", zap.Error(err))
		return errReported // once
	}
	d.logger.Info("stopped")
	return nil
}

// followWakers lets the kernel wake the loop until the context ends. Its faults do not end
// evictd.
func (d *daemon) followWakers(ctx context.Context) error {
	if err := d.wakers.Run(ctx, d.recorder); err != nil {
		d.logger.Warn("closing the wake-ups", zap.Error(err))
	}
	return nil
}

// ready returns why evictd could not decide anything now, or nil. That it is not known yet whether evictd may act
// counts until it has been known for the first time: a rollout to nodes on which it cannot know ends at the first
// of them. What is not known later is no matter of the process, as where the API server fails.
func (d *daemon) ready() error {
	err := errors.Join(d.idles(), d.agent.Ready(), d.findsPods(d.pods.List()))
	if d.acting.Of(d.inForce.Load().DryRun, d.flags.dryRun).Unanswered {
		err = errors.Join(err, errors.New("it is not known yet whether evictd may act; its log says why if that lasts"))
	}
	return err
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

// oomKills returns the kernel's own count since boot.
func (d *daemon) oomKills() (int64, error) { return pressure.OOMKills(d.flags.hostRoot) }

// status returns the document of this evictd. With ?disk=true the pods' disk use is measured for it, unless that
// was done a moment ago.
func (d *daemon) status(r *http.Request) (any, error) {
	if err := d.idles(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), loopTimeout, fmt.Errorf("no answer within %v", loopTimeout))
	defer cancel()
	document, err := d.agent.Status(ctx, r.FormValue("disk") == "true")
	if err != nil {
		return nil, err
	}
	d.complete(document)
	document.Decisions = d.recorder.LastDecisions()
	document.Rank(document.Short())
	return document, nil
}

// complete adds to a document what the loop does not know.
func (d *daemon) complete(document *status.Document) {
	document.APIVersion, document.Kind = status.APIVersion, status.Kind
	document.EvictdVersion, document.Revision, document.NodeName = version, revision, d.flags.nodeName
	document.Configuration = d.inForce.Load()
	if refused := d.refused.Load(); refused != nil {
		document.ConfigurationRefused = wording.OneLine((*refused).Error())
	}
}
