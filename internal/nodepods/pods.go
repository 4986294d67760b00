// Package nodepods answers: which pods are on this node, and what do they request?
//
// It keeps one watch, limited to the node by a field selector, and never lists again while the
// watch lives. Each pod becomes a [Pod] where it enters: a small value that cannot hold an
// environment, a command line, or the name of an image or a secret. No other package reads the API
// server's pods.
//
// Requests are computed as the kubelet computes them for its own ranking (k8s.io/kubernetes
// pkg/api/v1/resource/helpers.go), so that both agree on which pod exceeds which request. The store
// may be behind the API server. An eviction therefore names the UID of the pod that was ranked, and
// [Pods.Age] says how long ago the watch last delivered anything.
package nodepods

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// A watch can be dead while other requests are answered. The list then becomes stale: new pods are
// missing from it, and so are the ends of others. Bookmarks distinguish the watch of a quiet node
// from a dead one.
const (
	// staleAfter is how long a watch that has had bookmarks may be without any. An API server
	// sends one a minute (defaultBookmarkFrequency in apiserver/pkg/storage/cacher), so that
	// three are missing by then.
	staleAfter = 3 * time.Minute
	// staleWithoutBookmarks is that of a watch that has never had one. Client-go's reflector
	// opens a watch anew after ten minutes at most (defaultMaxWatchTimeout in
	// tools/cache/reflector.go), and that it is answered then counts. Two minutes are for a server
	// that takes its time.
	staleWithoutBookmarks = 12 * time.Minute
)

// Options are the settings of [Pods]. Only Self, LabelKeys and OnOOMKilled may be missing.
type Options struct {
	// NodeName is the node whose pods are watched.
	NodeName string
	// Self is the UID of evictd's own pod; "" outside of a cluster.
	Self string
	// Now is the clock.
	Now func() time.Time
	// LabelKeys are the keys of the labels that are kept: a pod may have more labels than evictd
	// has memory. See [Pods.KeepLabels].
	LabelKeys []string
	// OnError receives the error of every list or watch that was refused or not answered. It is called
	// on the watch's goroutine and must not block. The reflector tries again after a back-off.
	OnError func(error)
	// OnOOMKilled receives, once, each container that the kernel killed after the first list, as
	// far as a pod's status keeps it; nil ignores them. It is called as OnError is.
	OnOOMKilled func(*Pod, OOMKilled)
}

// Pods are the pods of one node, as far as the API server has reported them.
type Pods struct {
	client     Client[*corev1.PodList]
	options    Options
	store      atomic.Pointer[store]
	again      atomic.Pointer[context.CancelFunc] // ends the watch, which then begins with a list; nil before Run
	answered   atomic.Pointer[time.Time]          // when the API server last delivered anything or answered a new watch; nil before
	bookmarked atomic.Bool                        // it sends bookmarks
}

// New returns the pods of a node, by a client of the pods of all namespaces. It sends nothing; see [Pods.Run].
func New(client Client[*corev1.PodList], options Options) *Pods {
	p := &Pods{client: client, options: options}
	p.store.Store(p.newStore(options.LabelKeys))
	return p
}

// Run watches until ctx is done, and fills one store after the other. It may be called once.
func (p *Pods) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		watching, again := context.WithCancel(ctx)
		p.again.Store(&again)
		Follow(watching, p.client, "spec.nodeName="+p.options.NodeName, &corev1.Pod{}, p.store.Load(), p.options.OnError, p.note)
		again()
	}
	return nil
}

// KeepLabels changes which labels are kept. Where there is a new key, the pods are listed anew, and are
// not synced until they are.
func (p *Pods) KeepLabels(keys []string) {
	before := p.store.Load()
	if before.keys.HasAll(keys...) {
		return
	}
	fresh := p.newStore(keys)
	_ = fresh.Store.Replace(before.List(), "") // until there is a list; each has its key already
	p.store.Store(fresh)
	if again := p.again.Load(); again != nil {
		(*again)()
	}
}

func (p *Pods) note() {
	now := p.options.Now()
	p.answered.Store(&now)
}

// Synced reports whether the first list is in the store. Before that [Pods.List] is not the node's pods.
func (p *Pods) Synced() bool { return p.store.Load().synced.Load() }

// List returns the node's pods in no particular order. They are shared and must not be changed.
func (p *Pods) List() []*Pod {
	all := p.store.Load().List()
	pods := make([]*Pod, 0, len(all))
	for _, object := range all {
		if pod, is := object.(*Pod); is {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Age returns how long ago the API server last delivered anything, bookmarks
// included, or answered a new watch, and false when it never has. A quiet node is no fault: bookmarks come
// about once a minute from servers that send them, and not at all from others.
func (p *Pods) Age() (time.Duration, bool) {
	last := p.answered.Load()
	if last == nil {
		return 0, false
	}
	return p.options.Now().Sub(*last), true
}

// Stale returns nil while the list can be relied on, and else why it cannot: the API server
// has neither delivered anything nor answered a new watch for some minutes. Before the first
// list it returns nil, see [Pods.Synced].
func (p *Pods) Stale() error {
	age, known := p.Age()
	bound := staleWithoutBookmarks
	if p.bookmarked.Load() {
		bound = staleAfter
	}
	if known && age > bound {
		return fmt.Errorf("the watch of the node's pods has delivered nothing for %v, not even a bookmark", age.Round(time.Second))
	}
	return nil
}
