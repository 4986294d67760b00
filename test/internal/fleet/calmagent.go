package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/agent"
	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/taint"
	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/test/internal/eventually"
)

// calmAgent is an agent of the product's own parts.
type calmAgent struct {
	number   int
	link     *link
	pods     *nodepods.Pods
	agent    *agent.Agent
	recorder recorder
	events   *record.Events
	taints   *taint.Keeper
	acting   *acting.Acting
	group    *errgroup.Group
	cancel   context.CancelFunc

	own      *nodepods.Pod // its own pod, as the store had it
	replaced time.Time     // when the store last took a whole list; see look
}

// connectAgent starts an agent and waits until it has its node's pods.
func (c *Calm) connectAgent(ctx context.Context, i int) (*calmAgent, error) {
	base := &rest.Config{
		Host: c.options.Config.Host, BearerTokenFile: c.TokenFile(i), UserAgent: "evictd/fleet",
		TLSClientConfig: rest.TLSClientConfig{CAData: c.options.Config.CAData},
	}
	a := &calmAgent{number: i, link: &link{requests: c.requests, agent: i}}
	clients, err := connect(base, NodeName(i), a.link.wrap)
	if err != nil {
		return nil, err
	}
	a.acting = acting.New(clients.Watching.ConfigMaps(account), account, time.Now)
	if err = a.make(clients, NodeName(i)); err != nil {
		return nil, err
	}
	a.events = record.NewEvents(clients.Telling.EventSink(), NodeName(i), account, time.Now)
	a.taints = taint.New(clients.Evicting.Nodes(), NodeName(i), nil)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the agents outlive the wait
	a.cancel = cancel
	a.group, running = errgroup.WithContext(running)
	a.group.Go(func() error { return a.pods.Run(running) })
	a.group.Go(func() error { return a.acting.Run(running) })
	a.group.Go(func() error { return a.agent.Run(running) })
	a.group.Go(func() error { return a.taints.Run(running) })
	if err = a.checkNode(ctx, clients, NodeName(i)); err != nil {
		return a, err
	}
	err = eventually.Poll(ctx, func(context.Context) bool {
		state, _ := a.recorder.acts()
		return a.pods.Synced() && a.ownPod() != nil && !state.Reason.Unknown()
	})
	if err != nil {
		return a, fmt.Errorf("waiting until the agent of %s has its pods: %w", NodeName(i), err)
	}
	a.look()
	return a, nil
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

// make creates the agent and what asks the API server for it.
func (a *calmAgent) make(clients *apiclient.Clients, nodeName string) error {
	a.pods = nodepods.New(clients.Watching.Pods(), nodepods.Options{NodeName: nodeName, Now: time.Now})
	var err error
	a.agent, err = agent.New(agent.Options{
		Policy: agent.Policy{
			Policy: decide.Policy{
				Thresholds: []pressure.Threshold{{Signal: pressure.MemoryAvailable, Quantity: pressure.Absolute(threshold), Hard: true}},
			},
			Acting: func() acting.State { return a.acting.Of(acting.Configuration{}) },
			// Many nodes share this machine's cores: sampling each every 10 ms would leave
			// none for the API server. The requests do not depend on the interval.
			Pacing: pressure.Pacing{Min: 250 * time.Millisecond, Max: time.Second},
		},
		Sampler: calmNode{}, Pods: a.pods, Cgroups: calmNode{}, Recorder: &a.recorder,
		Evictor: evict.New(clients.Evicting.Core(), time.Now),
		Acting:  a.acting.Changed(), Random: rand.Float64,
	})
	if err != nil {
		return fmt.Errorf("making the agent of %s: %w", nodeName, err)
	}
	return nil
}

// checkNode sends what cmd/evictd sends once at the start; TestCalmAgentAsksAsEvictdDoes in
// test/faults compares the two.
func (a *calmAgent) checkNode(ctx context.Context, clients *apiclient.Clients, name string) error {
	node, err := clients.Telling.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s as its agent: %w", name, err)
	}
	a.taints.Found(node)
	return nil
}

// end waits for the agent's end.
func (a *calmAgent) end(ctx context.Context) error {
	err := a.group.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventually.Limit())
	defer cancel()
	if lost := a.events.Close(ctx); err == nil {
		err = lost
	}
	if err != nil {
		return fmt.Errorf("ending the agent of %s: %w", NodeName(a.number), err)
	}
	return nil
}

// ownPod returns the agent's own pod; nil where the store does not have it.
func (a *calmAgent) ownPod() *nodepods.Pod {
	for _, pod := range a.pods.List() {
		if pod.Key() == account+"/"+agentName(a.number) {
			return pod
		}
	}
	return nil
}

// look notes that the store has taken a whole list: then each pod is another value.
func (a *calmAgent) look() {
	if own := a.ownPod(); own != nil && own != a.own {
		a.own, a.replaced = own, time.Now()
	}
}

// syncedSince returns when the agent's watch was in order again, after a moment. A watch that goes
// on where the previous one ended is in order once it is answered.
func (a *calmAgent) syncedSince(since time.Time, log *Requests) (time.Time, bool) {
	mine := slices.DeleteFunc(log.Of(a.number, since), func(r Request) bool { return r.Kind == StopWatch })
	if len(mine) == 0 {
		return time.Time{}, false
	}
	last := slices.MaxFunc(mine, func(x, y Request) int { return x.At.Compare(y.At) })
	switch {
	case !last.Succeeded():
		return time.Time{}, false
	case last.Kind == WatchResumed:
		at := last.At.Add(last.Took)
		if a.replaced.After(at) {
			at = a.replaced
		}
		return at, true
	case last.Kind == WatchList:
		return a.replaced, a.replaced.After(last.At)
	default:
		return time.Time{}, false
	}
}
