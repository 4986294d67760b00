package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/permits"
	"github.com/evictd/evictd/internal/pools"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
)

// member is one agent on its node, with its own connection.
type member struct {
	node    *node
	wake    chan struct{}
	pods    *nodepods.Pods
	permits *permits.Semaphore
	agent   *agent.Agent
	tally   tally
}

// tally is an agent's recorder, which counts.
type tally struct {
	mu            sync.Mutex
	outcomes      map[evict.Outcome]int
	withoutPermit int // evicted although the permits were unknown
	verdicts      map[permits.Verdict]int
	acting        acting.State
	actingSince   time.Time // zero before the agent's first answer
	unlucky       []string  // messages of outcomes that a healthy API server does not return
}

// newMember creates an agent with a client set-up of its own, as the shipped one has it. Own is
// the namespace of the permits' Leases, perWorkload how many of them each workload has. Follows says
// whether it acts; with nil it does.
func newMember(clients *apiclient.Clients, nodeName, own string, perWorkload int, follows *acting.Acting) (*member, error) {
	m := &member{node: &node{pods: map[string]bool{}}, wake: make(chan struct{}, 1)}
	m.tally.outcomes, m.tally.verdicts = map[evict.Outcome]int{}, map[permits.Verdict]int{}
	m.pods = nodepods.New(clients.Watching.Pods(), nodepods.Options{NodeName: nodeName, Now: time.Now})
	m.permits = permits.New(permits.Options{
		Leases: clients.Evicting.Leases(own), Node: nodeName, Now: time.Now, Random: rand.Float64, Recorder: &m.tally,
	})
	options := agent.Options{
		Policy: agent.Policy{
			Policy: decide.Policy{
				Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(threshold), Hard: true}},
				Permits:    pools.Limits{PerWorkload: perWorkload},
			},
			// Many nodes share this machine's cores: sampling each every 10 ms would leave
			// none for the API server. The requests do not depend on the interval.
			Pacing: pressure.Pacing{Min: 250 * time.Millisecond, Max: time.Second},
		},
		Sampler: m.node, Pods: m.pods, Cgroups: m.node, Recorder: &m.tally, Permits: m.permits,
		Evictor: evict.New(clients.Evicting.Core(), time.Now),
		Wake:    m.wake, Random: rand.Float64,
	}
	if follows != nil {
		options.Acting = follows.Changed()
		options.Policy.Acting = acting.By(func() acting.State { return follows.Of(acting.Configuration{}) })
	}
	var err error
	if m.agent, err = agent.New(options); err != nil {
		return nil, fmt.Errorf("making the agent of %s: %w", nodeName, err)
	}
	return m, nil
}

// connect makes the clients of an agent as `evictd run` makes them, with a connection of its
// own: client-go shares one among equal TLS configurations in a process. So the certificate
// authority gets a comment that no other agent's has, which changes nothing else. A dialer of
// its own would give each of the agent's three clients its own connection.
func connect(base *rest.Config, nodeName string, wrap transport.WrapperFunc) (*apiclient.Clients, error) {
	config := rest.CopyConfig(base)
	config.CAData = fmt.Appendf(slices.Clone(base.CAData), "\n# %s\n", nodeName)
	config.Wrap(wrap)
	clients, err := apiclient.New(config, nil)
	if err != nil {
		return nil, fmt.Errorf("connecting the agent of %s: %w", nodeName, err)
	}
	return clients, nil
}

// start starts everything and waits until there is no pressure. The returned function waits
// for the end.
func (f *fleet) start(ctx context.Context) (stop func() error, err error) {
	group, ctx := errgroup.WithContext(ctx)
	stop = func() error { f.hands.work.Wait(); return group.Wait() }
	for i := range f.options.Nodes {
		clients, err := connect(f.options.Config, f.nodeName(i), f.counts.wrap)
		if err != nil {
			return stop, err
		}
		m, err := newMember(clients, f.nodeName(i), f.own, f.options.Permits, nil)
		if err != nil {
			return stop, err
		}
		f.members = append(f.members, m)
	}
	if err := f.watcher.start(ctx); err != nil {
		return stop, err
	}
	if err := f.ready(ctx); err != nil {
		return stop, err
	}
	f.say("%d pods of %d Deployments run on %d nodes.", f.hands.running(), f.options.Workloads, f.options.Nodes)
	for _, m := range f.members {
		group.Go(func() error { return m.pods.Run(ctx) })
		group.Go(func() error { return m.agent.Run(ctx) })
		group.Go(func() error { return m.permits.Run(ctx) })
	}
	return stop, until(ctx, "every agent is ready", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(f.members, func(m *member) bool { return m.agent.Health().Ready() != nil }), nil
	})
}

// runs adds a pod to a node; the spare node is ignored.
func (f *fleet) runs(name, uid string) {
	if m := f.member(name); m != nil {
		m.node.runs(uid)
	}
}

func (f *fleet) ended(name, uid string) {
	if m := f.member(name); m != nil {
		m.node.ended(uid)
	}
}

func (f *fleet) member(name string) *member {
	var i int
	if _, err := fmt.Sscanf(strings.TrimPrefix(name, f.namespace+"-"), "%d", &i); err != nil {
		return nil
	}
	return f.members[i]
}

// Decision counts the requests of a decision.
func (t *tally) Decision(d *decide.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range d.Attempts {
		result := &d.Attempts[i].Result
		t.outcomes[result.Outcome]++
		switch result.Outcome {
		case evict.Denied, evict.Misconfigured, evict.Unconfirmed, evict.Throttled:
			t.unlucky = append(t.unlucky, string(result.Outcome)+": "+result.Message)
		case evict.Evicted, evict.WouldEvict, evict.Deleted, evict.WouldDelete, evict.Gone, evict.BlockedByBudget, evict.BudgetPending:
		}
	}
	for _, note := range d.Notes {
		if strings.Contains(note, "without a permit") {
			t.withoutPermit++
			t.unlucky = append(t.unlucky, note)
		}
	}
}

// Permit counts the result of a request for a permit.
func (t *tally) Permit(v permits.Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.verdicts[v]++
}

// Acting notes whether the agent acts, and since when.
func (t *tally) Acting(s acting.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s != t.acting || t.actingSince.IsZero() {
		t.acting, t.actingSince = s, time.Now()
	}
}

// acts returns it.
func (t *tally) acts() (acting.State, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.acting, t.actingSince
}

// PermitError records the error of a release.
func (t *tally) PermitError(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlucky = append(t.unlucky, err.Error())
}

// The other methods of the recorder are not needed here.

// PermitsHeld does nothing.
func (*tally) PermitsHeld(int) {}

// Sample does nothing.
func (*tally) Sample(*pressure.Sample, *pressure.Verdict) {}

// Tick does nothing.
func (*tally) Tick(time.Time, time.Duration) {}

// Intent does nothing.
func (*tally) Intent(*decide.Decision, *decide.Attempt) {}

// Ledger does nothing.
func (*tally) Ledger(time.Time, []inflight.Booking) {}
func (*tally) IncidentBegan(*incident.Incident)     {}
func (*tally) IncidentEnded(*incident.Incident)     {}

// VictimEnded does nothing.
func (*tally) VictimEnded(*inflight.Ended) {}

// LeftAlone does nothing.
func (*tally) LeftAlone(int, int, int) {}

// ReadError does nothing.
func (*tally) ReadError(string, error) {}
