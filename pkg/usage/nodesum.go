package usage

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/internal/filetree"
)

// sum adds up what was counted of each pod.
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

// begin returns what is known without the files: all, except for what was not found.
func (p *foundPod) begin(now time.Time) DiskUse {
	all := FSUse{BytesKnown: true, InodesKnown: true}
	use := DiskUse{NodeFS: all, ImageFS: all, Layers: all, Logs: all, Volumes: all, Time: now}
	for _, part := range []part{layerPart, logPart, volumePart} {
		if fault := p.faults[part]; fault != nil {
			use.missing(use.part(part), onNodeFS|onImageFS, fault)
		}
	}
	if p.noDeleted == nil {
		use.Deleted = all
	}
	use.Deleted.add(p.deleted.all.Bytes, p.deleted.all.Inodes)
	use.NodeFS.add(p.deleted.nodeFS.Bytes, p.deleted.nodeFS.Inodes)
	use.ImageFS.add(p.deleted.imageFS.Bytes, p.deleted.imageFS.Inodes)
	return use
}

func (u *DiskUse) part(p part) *FSUse {
	switch p {
	case layerPart:
		return &u.Layers
	case logPart:
		return &u.Logs
	default:
		return &u.Volumes
	}
}

// count adds one place. One that could not be opened may be on either filesystem.
func (u *DiskUse) count(p *place, on where, c *filetree.Count) {
	sum := u.part(p.part)
	sum.add(c.Bytes, c.Inodes)
	if on&onNodeFS != 0 {
		u.NodeFS.add(c.Bytes, c.Inodes)
	}
	if on&onImageFS != 0 {
		u.ImageFS.add(c.Bytes, c.Inodes)
	}
	if c.Partial == nil {
		return
	}
	if on == nowhere {
		on = onNodeFS | onImageFS
	}
	u.missing(sum, on, fmt.Errorf("counting the %s: %w", p.part, c.Partial))
}

// missing makes the sums lower bounds, and keeps the first reason.
func (u *DiskUse) missing(sum *FSUse, on where, reason error) {
	sum.forget()
	if on&onNodeFS != 0 {
		u.NodeFS.forget()
	}
	if on&onImageFS != 0 {
		u.ImageFS.forget()
	}
	if u.Reason == "" {
		u.Reason = reason.Error()
	}
}
