package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/measure"
)

// CalmOptions configure [NewCalm]; all must be set.
type CalmOptions struct {
	// Config are the administrator's credentials.
	Config *rest.Config
	// Dir is an empty folder for the agents' tokens.
	Dir string
	// Nodes is how many nodes there are; PodsPerNode is how many pods each has, the agent's own
	// included.
	Nodes, PodsPerNode int
}

// Calm are many nodes without pressure, and agents on some of them. Each agent has the account and
// the rights of the shipped manifest, a token bound to its pod, and a connection of its own. The
// nodes exist in the API alone. Its methods must not be called concurrently, but for
// [Calm.Replace].
type Calm struct {
	options   CalmOptions
	client    kubernetes.Interface
	namespace string // the workloads'
	requests  *Requests
	agents    []*calmAgent
	ended     []*link // of agents that were disconnected

	mu   sync.Mutex
	pods [][]string // by node: the names of the workloads' pods
	made int        // pods so far, for their names
}

// writers is how many requests are made at once to create objects.
const writers = 16

// NewCalm creates nodes and their pods, but no agent.
func NewCalm(ctx context.Context, options CalmOptions) (*Calm, error) {
	c := &Calm{options: options, requests: &Requests{conns: map[net.Conn]bool{}}, pods: make([][]string, options.Nodes)}
	config := rest.CopyConfig(options.Config)
	config.QPS = -1
	var err error
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	made, err := c.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "calm-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a namespace: %w", err)
	}
	c.namespace = made.Name
	if err := c.awaitAccount(ctx, c.namespace, "default"); err != nil {
		return nil, err
	}
	return c, c.each(ctx, 0, options.Nodes, func(ctx context.Context, i int) error {
		if err := c.makeNode(ctx, i); err != nil {
			return err
		}
		return c.Fill(ctx, i, options.PodsPerNode-1)
	})
}

// Client returns the administrator's client.
func (c *Calm) Client() kubernetes.Interface { return c.client }

// Requests returns the log of all agents' requests.
func (c *Calm) Requests() *Requests { return c.requests }

// each calls do for a range of nodes, some at once.
func (*Calm) each(ctx context.Context, from, to int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := from; i < to; i++ {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait() //nolint:wrapcheck // do has said what failed
}

func (c *Calm) awaitAccount(ctx context.Context, namespace, account string) error {
	err := eventually.Poll(ctx, func(ctx context.Context) bool {
		_, err := c.client.CoreV1().ServiceAccounts(namespace).Get(ctx, account, metav1.GetOptions{})
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the service account %s: %w", account, err)
	}
	return nil
}

// Admit creates the agents' own pods and tokens. The shipped manifest's namespace and service
// account must be there.
func (c *Calm) Admit(ctx context.Context) error {
	if err := c.awaitAccount(ctx, account, account); err != nil {
		return err
	}
	return c.each(ctx, 0, c.options.Nodes, c.admit)
}

// admit writes a token as the kubelet requests it: bound to the pod, and so to its node.
func (c *Calm) admit(ctx context.Context, i int) error {
	pod, err := c.makePod(ctx, agentPod(agentName(i), NodeName(i)), false)
	if err != nil {
		return err
	}
	const lifetime = 3607 // seconds: the kubelet's
	seconds := int64(lifetime)
	token, err := c.client.CoreV1().ServiceAccounts(account).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &seconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting a token for %s: %w", pod.Name, err)
	}
	if err := os.WriteFile(c.TokenFile(i), []byte(token.Status.Token), 0o600); err != nil {
		return fmt.Errorf("writing a token: %w", err)
	}
	return nil
}

// TokenFile is the path of an agent's token.
func (c *Calm) TokenFile(i int) string { return filepath.Join(c.options.Dir, agentName(i)+".token") }

// Connect starts the agents of the nodes from the first to the one before the last, some at once,
// and returns when each has its node's pods. They run until [Calm.Disconnect].
func (c *Calm) Connect(ctx context.Context, first, last int) error {
	var mu sync.Mutex
	return c.each(ctx, first, last, func(ctx context.Context, i int) error {
		a, err := c.connectAgent(ctx, i)
		if a != nil {
			mu.Lock()
			defer mu.Unlock()
			c.agents = append(c.agents, a)
		}
		return err
	})
}

// Remove deletes the nodes and the agents' pods, and the namespace of the others.
func (c *Calm) Remove(ctx context.Context) error {
	now := int64(0)
	gone := metav1.DeleteOptions{GracePeriodSeconds: &now}
	faults := []error{
		c.client.CoreV1().Pods(c.namespace).DeleteCollection(ctx, gone, metav1.ListOptions{}),
		c.client.CoreV1().Namespaces().Delete(ctx, c.namespace, metav1.DeleteOptions{}),
	}
	for i := range c.options.Nodes {
		for _, err := range []error{
			c.client.CoreV1().Pods(account).Delete(ctx, agentName(i), gone),
			c.client.CoreV1().Nodes().Delete(ctx, NodeName(i), metav1.DeleteOptions{}),
		} {
			if !apierrors.IsNotFound(err) {
				faults = append(faults, err)
			}
		}
	}
	return errors.Join(faults...)
}

// Disconnect ends all agents. Their watches may take a moment to end; [Calm.Hangup] closes their
// connections.
func (c *Calm) Disconnect(ctx context.Context) error {
	var faults error
	for _, a := range c.agents {
		a.cancel()
	}
	for _, a := range c.agents {
		faults = errors.Join(faults, a.end(ctx))
		c.ended = append(c.ended, a.link)
	}
	c.agents = nil
	return faults
}

// Hangup closes the connections of ended agents that carry no request any more.
func (c *Calm) Hangup() {
	for _, one := range c.ended {
		one.close()
	}
}

// Agents is how many agents run.
func (c *Calm) Agents() int { return len(c.agents) }

// Replace ends one of a node's pods and starts another, with the writes of a scheduler and a
// kubelet: six changes of pods of that node.
func (c *Calm) Replace(ctx context.Context, i int) error {
	name := c.take(i)
	if name == "" {
		return fmt.Errorf("replacing a pod of %s: all of them are being replaced", NodeName(i))
	}
	pods := c.client.CoreV1().Pods(c.namespace)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting pod %s: %w", name, err)
	}
	leaving, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading pod %s: %w", name, err)
	}
	finish(leaving)
	if _, err := pods.UpdateStatus(ctx, leaving, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("telling that pod %s has ended: %w", name, err)
	}
	now := int64(0)
	if err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing pod %s: %w", name, err)
	}
	return c.fill(ctx, i, 1, true)
}

// take removes a pod of a node from the list of those that may be replaced; "" where there is none.
func (c *Calm) take(i int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pods[i]) == 0 {
		return ""
	}
	name := c.pods[i][0]
	c.pods[i] = c.pods[i][1:]
	return name
}

// Fill adds running pods to a node.
func (c *Calm) Fill(ctx context.Context, i, pods int) error { return c.fill(ctx, i, pods, false) }

func (c *Calm) fill(ctx context.Context, i, pods int, starting bool) error {
	for range pods {
		c.mu.Lock()
		c.made++
		name := fmt.Sprintf("web-frontend-7c9f6d5b48-%06d", c.made)
		c.mu.Unlock()
		if _, err := c.makePod(ctx, workloadPod(c.namespace, name, NodeName(i)), starting); err != nil {
			return err
		}
		c.mu.Lock()
		c.pods[i] = append(c.pods[i], name)
		c.mu.Unlock()
	}
	return nil
}

// PodBytes returns how large a pod is, as the API server sends it (protobuf).
func (c *Calm) PodBytes(ctx context.Context) (int, error) {
	c.mu.Lock()
	name := c.pods[0][0]
	c.mu.Unlock()
	pod, err := c.client.CoreV1().Pods(c.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading pod %s: %w", name, err)
	}
	return pod.Size(), nil
}

// Restored returns how long after a moment each agent was in sync again, given that no agent has
// received an answer for quiet: its last request was answered, and if that was for a whole list,
// the list is in its store. The agents that are not in sync after patience are counted as missing.
func (c *Calm) Restored(ctx context.Context, since time.Time, quiet, patience time.Duration) (took []time.Duration, missing int, err error) {
	for time.Since(since) < patience {
		for _, a := range c.agents {
			a.look()
		}
		if last := c.requests.answered(); last.After(since) && time.Since(last) > quiet {
			break
		}
		if err := measure.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, 0, err
		}
	}
	for _, a := range c.agents {
		if at, ok := a.syncedSince(since, c.requests); ok {
			took = append(took, at.Sub(since))
		} else {
			missing++
		}
	}
	return took, missing, nil
}
