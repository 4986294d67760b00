package acting

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/internal/wording"
)

const (
	// readEvery is how often the labels are read. A watch would need the right to watch all
	// nodes, and would bring the whole Node at each of the kubelet's reports.
	readEvery = 30 * time.Second
	// readAgain is how soon they are read again after a failure.
	readAgain = 5 * time.Second
	// readJitter keeps the agents of many nodes from reading at the same time.
	readJitter = 0.2
)

// node follows the labels of the agent's own node. While no selector needs them, it reads nothing.
type node struct {
	read    func(ctx context.Context) (map[string]string, error)
	now     func() time.Time
	changed func()
	wake    chan struct{} // holds one value after the need for labels has changed

	mu      sync.Mutex // guards all below
	wanted  bool
	answers answers
	labels  map[string]string
}

func newNode(options *Options, changed func()) *node {
	return &node{read: options.ReadLabels, now: options.Now, changed: changed, wake: make(chan struct{}, 1)}
}

// run reads the labels while they are wanted, until the context ends.
func (n *node) run(ctx context.Context) error {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake:
		case <-due.C:
		}
		if n.isWanted() {
			due.Reset(wait.Jitter(n.readOnce(ctx), readJitter))
		}
	}
}

// readOnce reads the labels and returns how long the next reading may wait.
func (n *node) readOnce(ctx context.Context) time.Duration {
	labels, err := n.read(ctx)
	if ctx.Err() != nil {
		return readAgain // the program ends
	}
	n.mu.Lock()
	if err != nil {
		n.answers.fail(err, n.now())
	} else {
		n.answers.tell()
		n.labels = labels
	}
	n.mu.Unlock()
	n.changed()
	if err != nil {
		return readAgain
	}
	return readEvery
}

// isWanted reports whether a selector needs the labels.
func (n *node) isWanted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted
}

// state returns what follows for an agent from its node's labels alone. From then on it reads the
// labels, or no more, as the selector needs them.
func (n *node) state(selector map[string]string) State {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.want(len(selector) > 0)
	switch {
	case !n.wanted:
		return State{}
	case n.answers.known(n.now()):
		return selects(selector, n.labels)
	}
	unknown := State{Reason: NodeUnknown, Why: "the labels of its node are not known yet"}
	if fault := n.answers.fault; fault != nil {
		unknown.Why = fmt.Sprintf("the labels of its node are not known: %s", wording.OneLine(fault.Error()))
		unknown.Do = "check the right to get nodes and the connection to the API server"
	}
	return unknown
}

// want notes whether the labels are needed. Those from before a time without a need are old. The lock
// is held.
func (n *node) want(wanted bool) {
	if wanted == n.wanted {
		return
	}
	n.wanted, n.answers = wanted, answers{}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
