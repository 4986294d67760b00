package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/hostinfo"
	"github.com/evictd/evictd/internal/httpd"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/state"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// flushTimeout is how long events may still be sent at shutdown.
const flushTimeout = 5 * time.Second

// runFlags are the flags of `evictd run`.
type runFlags struct {
	whereFlags
	dryRun        bool
	kubeletConfig string
	address       string
	stateDir      string
	logLevel      string
	logFormat     string
}

func newRunCommand(clientGo func(klog.Logger)) *cobra.Command {
	var flags runFlags
	cmd := &cobra.Command{
		Use:   "run --config FILE --node-name NAME",
		Short: "Watch the node and evict pods under pressure",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(cmd.Context(), &flags, cmd.ErrOrStderr(), clientGo)
		},
	}
	flags.add(cmd.Flags())
	cmd.Flags().BoolVar(&flags.dryRun, "dry-run", false, "evict no pod: every request is a server-side dry run")
	cmd.Flags().StringVar(&flags.kubeletConfig, "kubelet-config", "", "the kubelet's configuration file on the host; looked for when left out")
	cmd.Flags().StringVar(&flags.address, "http-bind-address", ":9464", "where /metrics, /livez, /readyz and /debug/decisions are served")
	cmd.Flags().StringVar(&flags.stateDir, "state-dir", "", "a directory for what should outlive a restart of the container; nothing does when left out")
	cmd.Flags().StringVar(&flags.logLevel, "log-level", "info", "debug, info, warn or error")
	cmd.Flags().StringVar(&flags.logFormat, "log-format", "json", "json or console")
	return cmd
}

// runAgent reports faults before anything starts, then runs until the end.
func runAgent(ctx context.Context, flags *runFlags, log io.Writer, clientGo func(klog.Logger)) error {
	if err := flags.check(); err != nil {
		return err
	}
	logger, err := flags.newLogger(log)
	if err != nil {
		return err
	}
	clientGo(zapr.NewLogger(logger.Named("client-go")))
	begins, err := flags.begin(ctx, logger)
	if err != nil || begins.configuration == nil {
		return err
	}
	d, err := build(ctx, flags, begins.configuration, logger)
	if err != nil {
		return err
	}
	defer d.close()
	if begins.refused != nil {
		d.refused.begin(begins.refused, insteadLast)
	} else {
		d.keepLast(begins.configuration)
	}
	return d.run(ctx)
}

// newLogger returns the logger that the flags configure. It rejects zap's other levels, at
// which evictd would log nothing.
func (f *runFlags) newLogger(w io.Writer) (*zap.Logger, error) {
	if !slices.Contains([]string{"debug", "info", "warn", "error"}, f.logLevel) {
		return nil, usageError{fmt.Errorf("--log-level %q: write debug, info, warn or error", f.logLevel)}
	}
	if !slices.Contains([]string{"json", "console"}, f.logFormat) {
		return nil, usageError{fmt.Errorf("--log-format %q: write json or console", f.logFormat)}
	}
	logger, err := record.NewLogger(f.logLevel, f.logFormat, w)
	if err != nil {
		return nil, usageError{err}
	}
	return logger, nil
}

// daemon is the object graph of `evictd run`.
type daemon struct {
	flags        *runFlags
	inForce      atomic.Pointer[config.EvictdConfiguration]
	logger       *zap.Logger
	clients      *clients
	host         *host
	events       *record.Events
	recorder     *record.Recorder
	wakers       *pressure.Wakers
	pods         *nodepods.Pods
	reader       *hostinfo.Reader
	kills        *usage.OOMKills // nil where the cgroups do not count them
	optIns       optIns
	agent        *agent.Agent
	state        *state.Store // nil where none is kept
	server       *httpd.Server
	refused      refusal
	compared     atomic.Pointer[kubeletThresholds] // nil where the kubelet's configuration is not known
	uncheckedWhy string                            // the last reported reason why the kubelet's configuration was not compared
}

// build opens what can be opened and connects the parts. It starts only the queue of events.
func build(ctx context.Context, flags *runFlags, loaded *config.EvictdConfiguration, logger *zap.Logger) (*daemon, error) {
	d := &daemon{flags: flags, logger: logger}
	d.inForce.Store(loaded)
	policy, err := policyOf(loaded, flags.dryRun)
	if err != nil {
		return nil, err
	}
	policy.ImageReclaim = flags.imageReclaim()
	if err = checkOptIns(loaded); err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	if err = d.openRecorder(registry); err != nil {
		return nil, err
	}
	if d.host, err = openHost(&flags.whereFlags, loaded, signalsOf(policy.Thresholds)); err != nil {
		return nil, err
	}
	d.recorder.InForce(policy.DryRun, policy.Thresholds)
	seen := d.host.current().Sample(time.Now())
	d.warn(loaded, &seen)
	policy.KubeletHard = d.checkKubeletThresholds(loaded, policy.Thresholds, d.host.current())
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
	d.events = record.NewEvents(d.clients.telling, d.flags.nodeName, "evictd", time.Now)
	d.recorder = record.New(d.logger, registry, d.events, record.Settings{
		NodeName: d.flags.nodeName, Version: buildVersion(), Self: self(), Now: time.Now,
		MemoryUsed: hostinfo.New(d.flags.hostRoot, d.flags.kubepods).Memory, OOMKills: d.oomKills,
	})
	return nil
}

// apiError counts a failed request. No client sends anything before the recorder exists.
func (d *daemon) apiError(request, class string) { d.recorder.APIError(request, class) }

// connect creates the parts that watch, decide and serve.
func (d *daemon) connect(ctx context.Context, policy agent.Policy, registry *prometheus.Registry) (err error) {
	d.pods = nodepods.New(d.clients.watching, nodepods.Options{
		NodeName: d.flags.nodeName, Now: time.Now, OnError: d.recorder.WatchError, OnOOMKilled: d.openOOMKills(),
	})
	d.recorder.WatchAge(d.pods.Age)
	d.reader = hostinfo.New(d.flags.hostRoot, d.host.kubepods)
	d.optIns = d.newOptIns(&policy)
	options := agent.Options{
		Policy:     policy,
		Self:       self(),
		Sampler:    d.host.current(),
		Pods:       d.pods,
		Cgroups:    d.host.tree,
		Disk:       newDisk(d.clients, &d.flags.whereFlags, d.inForce.Load, d.host.dedicatedImageFS),
		Images:     &images{d.clients, d.flags.nodeName, d.host.dedicatedImageFS},
		Evictor:    evict.New(d.clients.evicting.CoreV1().RESTClient(), time.Now),
		Recorder:   d.recorder,
		Host:       newHostMemory(d.reader, func(err error) { d.recorder.ReadError(record.SourceHost, err) }),
		Wake:       d.wakers.Wake(),
		KubeletGap: d.host.kubeletGap().at,
		Random:     rand.Float64,
		OOMKills:   d.oomKills,

		Held:           d.held,
		FreeOnCPULists: func() (int64, error) { return pressure.FreeOnCPULists(d.flags.hostRoot) },

		Taints: d.optIns.taints,
	}
	if d.optIns.permits != nil {
		options.Permits = d.optIns.permits
	}
	d.remember(ctx, &options)
	if d.agent, err = agent.New(options); err != nil {
		return err
	}
	d.server = httpd.New(registry, httpd.Options{
		Addr:      d.flags.address,
		Live:      func() error { return d.agent.Health().Alive(time.Now()) },
		Ready:     func() error { return errors.Join(d.refused.ready(), d.agent.Health().Ready()) },
		Note:      d.refused.sentence,
		Decisions: d.recorder.Decisions(),
	})
	return nil
}

// self returns this pod's identity from the downward API; the zero value outside a cluster.
func self() nodepods.Self {
	return nodepods.Self{
		UID:       os.Getenv("POD_UID"),
		Namespace: os.Getenv("POD_NAMESPACE"),
		Name:      os.Getenv("POD_NAME"),
	}
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

// listen opens the server's port.
func (d *daemon) listen(ctx context.Context) error {
	if err := d.server.Listen(ctx); err != nil {
		return fmt.Errorf("%w; name another address by --http-bind-address", err)
	}
	return nil
}

// flushEvents sends the queued Events, within a time limit.
func (d *daemon) flushEvents(ctx context.Context) {
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	if lost := d.events.Close(flush); lost != nil {
		d.logger.Warn("events were lost", zap.Error(lost))
	}
}

// run starts everything and ends when the context does or a part fails.
func (d *daemon) run(ctx context.Context) error {
	if err := d.listen(ctx); err != nil {
		return err
	}
	d.logger.Info("started",
		zap.String("version", buildVersion()),
		zap.String("node", d.flags.nodeName),
		zap.String("kubepods", d.host.kubepods),
		thisHost(ctx, d.reader),
		zap.String("address", d.server.Addr()),
		zap.Bool("dry_run", d.inForce.Load().DryRun || d.flags.dryRun))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.pods.Run(ctx) })
	group.Go(func() error { return d.agent.Run(ctx) })
	group.Go(func() error { return d.server.Run(ctx) })
	group.Go(func() error { return d.followConfiguration(ctx) })
	group.Go(func() error { return d.checkNode(ctx) })
	group.Go(func() error { return d.followWakers(ctx) })
	group.Go(func() error { return d.followOOMKills(ctx) })
	group.Go(func() error { return d.followKubeletMemory(ctx) })
	group.Go(func() error { return d.optIns.taints.Run(ctx) })
	if d.optIns.permits != nil {
		group.Go(func() error { return d.optIns.permits.Run(ctx) })
	}
	err := group.Wait()
	d.flushEvents(ctx)
	if err != nil {
		d.logger.Error("stopped by a fault", zap.Error(err))
		return exitError{exitFault} // it has been reported, once
	}
	d.logger.Info("stopped")
	return nil
}

// warn reports settings that are valid but probably mistakes on this node, given a sample of
// it.
func (d *daemon) warn(c *config.EvictdConfiguration, seen *pressure.Sample) {
	capacity := func(signal pressure.Signal) int64 {
		if of := seen.Of(signal); of.State == pressure.Known {
			return of.Capacity
		}
		return 0
	}
	for _, warning := range append(c.Warnings(), c.WarningsOn(capacity)...) {
		d.logger.Warn("the configuration is valid and probably not meant", zap.String("detail", warning))
	}
	if err := checkDisk(d.flags.hostRoot, c); err != nil {
		d.logger.Warn("the pods' disk use cannot be measured; no pod is evicted for disk until it can", zap.Error(err))
	}
}

func (d *daemon) close() {
	if err := errors.Join(d.wakers.Close(), d.host.close()); err != nil {
		d.logger.Warn("closing what was read", zap.Error(err))
	}
	_ = d.logger.Sync() // syncing a terminal or pipe always fails
}

// followConfiguration applies every valid edit of the file, and keeps the previous
// configuration where an edit is invalid.
func (d *daemon) followConfiguration(ctx context.Context) error {
	var checks sync.WaitGroup
	defer checks.Wait()
	apply := func(c *config.EvictdConfiguration) error {
		err := d.putInForce(ctx, c)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the program ends: neither in force nor refused
		}
		if err == nil {
			d.refused.set(nil)
			d.recorder.Config(nil)
			d.keepLast(c)
			checks.Go(func() { d.checkRights(ctx, c) }) // the next edit does not wait for the API server
		}
		return err
	}
	inForce := d.inForce.Load()
	if d.refused.atStart() != "" {
		inForce = nil // the next valid file is always a change
	}
	return config.Watch(ctx, d.flags.config, inForce, apply, d.noteRefused)
}

// putInForce passes a new configuration to the loop, with its own sampler: its thresholds
// may use signals that were not read before.
func (d *daemon) putInForce(ctx context.Context, c *config.EvictdConfiguration) error {
	policy, err := policyOf(c, d.flags.dryRun)
	if err != nil {
		return err
	}
	policy.ImageReclaim = d.flags.imageReclaim()
	if err = checkOptIns(c); err != nil {
		return err
	}
	sampler, err := d.host.openSampler(c, signalsOf(policy.Thresholds))
	if err != nil {
		return err
	}
	seen := sampler.Sample(time.Now()) // while the loop does not use the sampler yet
	policy.KubeletHard = d.checkKubeletThresholds(c, policy.Thresholds, sampler)
	if !d.agent.Reload(ctx, policy, sampler) {
		return errors.Join(ctx.Err(), sampler.Close())
	}
	d.inForce.Store(c)
	d.recorder.InForce(policy.DryRun, policy.Thresholds)
	d.warn(c, &seen)
	if err := d.host.replace(sampler); err != nil {
		d.logger.Warn("closing what was read", zap.Error(err)) // the configuration is in effect all the same
	}
	return nil
}
