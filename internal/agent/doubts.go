package agent

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/incident"
)

// doubts are the requests whose outcome is not known, by what the node was short of when they
// were sent. A request in doubt holds the decisions about that resource, so that no other pod
// is evicted for the same shortage. It holds no others: a soft request for a disk may be in
// doubt for half a minute, and memory cannot wait that long. The zero value has none.
type doubts struct {
	open []*unheard // one for a resource at most, the oldest first
}

// of returns the one about a resource; nil where there is none.
func (d *doubts) of(r incident.Resource) *unheard {
	if at := slices.IndexFunc(d.open, func(u *unheard) bool { return u.Asked.Resource() == r }); at >= 0 {
		return d.open[at]
	}
	return nil
}

// put keeps the one about a resource in place of the one before; nil is none.
func (d *doubts) put(r incident.Resource, u *unheard) {
	d.drop(func(before *unheard) bool { return before.Asked.Resource() == r })
	if u != nil {
		d.open = append(d.open, u)
	}
}

// drop forgets those that are settled.
func (d *doubts) drop(settled func(*unheard) bool) { d.open = slices.DeleteFunc(d.open, settled) }

// all returns them in a slice of their own.
func (d *doubts) all() []*unheard { return slices.Clone(d.open) }

// mayEnd reports whether a pod may end, or have ended, because of one of them.
func (d *doubts) mayEnd(now time.Time) bool {
	return slices.ContainsFunc(d.open, func(u *unheard) bool { return u.MayBeOurs(now) })
}

// about reports whether a pod's request is in doubt.
func (d *doubts) about(uid string) bool {
	return slices.ContainsFunc(d.open, func(u *unheard) bool { return u.UID() == uid })
}
