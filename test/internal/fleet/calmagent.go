package fleet

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/apiclient"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/record"
	"github.com/evictd/evictd/internal/taint"
)

// calmAgent is an agent of the product's own parts.
type calmAgent struct {
	*member
	number int
	link   *link
	events *record.Events
	taints *taint.Keeper
	acting *acting.Acting
	group  *errgroup.Group
	cancel context.CancelFunc

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
	a.acting = acting.New(acting.Options{
		ConfigMaps: clients.Watching.ConfigMaps(account), Namespace: account, Now: time.Now,
	})
	if a.member, err = newMember(clients, NodeName(i), account, 0, a.acting); err != nil {
		return nil, err
	}
	a.events = record.NewEvents(clients.Telling.EventSink(), NodeName(i), account, time.Now)
	a.taints = taint.New(taint.Options{Nodes: clients.Evicting.Nodes(), Node: NodeName(i)})
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the agents outlive the wait
	a.cancel = cancel
	a.group, running = errgroup.WithContext(running)
	a.group.Go(func() error { return a.pods.Run(running) })
	a.group.Go(func() error { return a.acting.Run(running) })
	a.group.Go(func() error { return a.agent.Run(running) })
	a.group.Go(func() error { return a.permits.Run(running) })
	a.group.Go(func() error { return a.taints.Run(running) })
	if err = a.checkNode(ctx, clients, NodeName(i)); err != nil {
		return a, err
	}
	err = until(ctx, "the agent of "+NodeName(i)+" has its pods", func(context.Context) (bool, error) {
		_, there := a.pods.Get(account, agentName(i))
		state, _ := a.tally.acts()
		return a.pods.Synced() && there && !state.Reason.Unknown(), nil
	})
	a.look()
	return a, err
}

// checkNode sends what cmd/evictd sends once at the start; TestCalmAgentAsksAsEvictdDoes in
// test/integration compares the two.
func (a *calmAgent) checkNode(ctx context.Context, clients *apiclient.Clients, name string) error {
	node, err := clients.Telling.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading node %s as its agent: %w", name, err)
	}
	a.taints.Found(node)
	for _, right := range []authorizationv1.ResourceAttributes{
		{Verb: "list", Resource: "pods"}, {Verb: "watch", Resource: "pods"}, {Verb: "create", Resource: "pods", Subresource: "eviction"},
	} {
		answer, err := clients.Telling.AccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right},
		}, metav1.CreateOptions{})
		if err != nil || !answer.Status.Allowed {
			return fmt.Errorf("asking for the agents' right to %s %s: it is missing (%w)", right.Verb, right.Resource, err)
		}
	}
	return nil
}

// end waits for the agent's end.
func (a *calmAgent) end(ctx context.Context) error {
	err := a.group.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if lost := a.events.Close(ctx); err == nil {
		err = lost
	}
	if err != nil {
		return fmt.Errorf("ending the agent of %s: %w", NodeName(a.number), err)
	}
	return nil
}

// look notes that the store has taken a whole list: then each pod is another value.
func (a *calmAgent) look() {
	own, there := a.pods.Get(account, agentName(a.number))
	if there && own != a.own {
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
