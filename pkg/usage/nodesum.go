package usage

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/filetree"
)

// sum adds up the counts of each pod.
func (f *found) sum(pods []NodePod, counts []filetree.Count, now time.Time) map[string]DiskUse {
	uses := make([]DiskUse, len(pods))
	for i := range uses {
		uses[i] = f.pods[i].begin(now)
	}
	for i, p := range f.places {
		uses[p.pod].count(p, f.layout.where(p.device), &counts[i])
	}
	byUID := make(map[string]DiskUse, len(pods))
	for i := range pods {
		if !f.pods[i].absent {
			byUID[pods[i].UID] = uses[i]
		}
	}
	return byUID
}

// begin returns what is known before the files are counted: everything, except for parts
// that were not found.
func (p *foundPod) begin(now time.Time) DiskUse {
	all := FSUse{BytesKnown: true, InodesKnown: true}
	parts := Parts{Layers: all, Logs: all, Volumes: all}
	if p.noDeleted == nil {
		parts.Deleted = all
	}
	use := DiskUse{NodeFS: all, ImageFS: all, OnNodeFS: parts, OnImageFS: parts, Time: now}
	for _, part := range []part{layerPart, logPart, volumePart} {
		if fault := p.faults[part]; fault != nil {
			use.missing(part, onNodeFS|onImageFS, fault)
		}
	}
	for on, deleted := range map[where]FSUse{onNodeFS: p.deleted.nodeFS, onImageFS: p.deleted.imageFS} {
		use.on(on, func(sum *FSUse, of *Parts) {
			sum.add(deleted.Bytes, deleted.Inodes)
			of.Deleted.add(deleted.Bytes, deleted.Inodes)
		})
	}
	return use
}

// on calls each for each of the filesystems, with the sum and its parts.
func (u *DiskUse) on(on where, each func(sum *FSUse, of *Parts)) {
	if on&onNodeFS != 0 {
		each(&u.NodeFS, &u.OnNodeFS)
	}
	if on&onImageFS != 0 {
		each(&u.ImageFS, &u.OnImageFS)
	}
}

func (p *Parts) part(of part) *FSUse {
	switch of {
	case layerPart:
		return &p.Layers
	case logPart:
		return &p.Logs
	default:
		return &p.Volumes
	}
}

// count adds one place. One that could not be opened may be on either filesystem.
func (u *DiskUse) count(p *place, on where, c *filetree.Count) {
	u.on(on, func(sum *FSUse, of *Parts) {
		sum.add(c.Bytes, c.Inodes)
		of.part(p.part).add(c.Bytes, c.Inodes)
	})
	if p.part == layerPart && on == onNodeFS {
		u.SplitLayers = true // nodefs alone: images are elsewhere
	}
	if c.Partial == nil {
		return
	}
	if on == nowhere {
		on = onNodeFS | onImageFS
	}
	u.missing(p.part, on, fmt.Errorf("counting the %s: %w", p.part, c.Partial))
}

// missing makes the sums lower bounds, and keeps the first reason.
func (u *DiskUse) missing(p part, on where, reason error) {
	u.on(on, func(sum *FSUse, of *Parts) {
		sum.forget()
		of.part(p).forget()
	})
	if u.Reason == "" {
		u.Reason = reason.Error()
	}
}
