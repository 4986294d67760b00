package nodepods

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
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
	// opens a watch anew after ten minutes at most (twice minWatchTimeout in
	// tools/cache/reflector.go), and what the server answers then counts. Two minutes are for
	// a server that takes its time.
	staleWithoutBookmarks = 12 * time.Minute
)

// Stale returns nil while the list can be relied on, and else why it cannot: the API server
// has neither delivered anything nor answered a new watch for some minutes. Before the first
// list it returns nil, see [Pods.Synced].
func (p *Pods) Stale() error {
	last := p.delivered.Load()
	if last == nil {
		return nil
	}
	if opened := p.opened.Load(); opened != nil && opened.After(*last) {
		last = opened
	}
	bound := staleWithoutBookmarks
	if p.bookmarked.Load() {
		bound = staleAfter
	}
	if age := p.now().Sub(*last); age > bound {
		return fmt.Errorf("the watch of the node's pods has delivered nothing for %v, not even a bookmark", age.Round(time.Second))
	}
	return nil
}

// receive processes an event of the watch.
func (p *Pods) receive(event watch.Event) {
	p.touch()
	if event.Type != watch.Bookmark {
		return
	}
	// The bookmark that ends a streamed list does not show that others follow.
	if object, ok := event.Object.(metav1.Object); ok && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "" {
		p.bookmarked.Store(true)
	}
}

// open notes that the API server has answered a new watch.
func (p *Pods) open() {
	now := p.now()
	p.opened.Store(&now)
}
