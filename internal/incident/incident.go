// Package incident gives a shortage its identity. A threshold's own state is reset by each reading
// at the threshold, by the hard threshold that follows the soft one, by an edit of the
// configuration and by a restart; an incident continues across all of them. It groups and names
// what happens in one shortage of one resource. It neither evicts nor forbids.
package incident

import (
	"slices"
	"time"

	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/pkg/pressure"
)

// victimsKept is how many victims an incident names; the others are counted. At the default
// of six evictions a minute it is ten minutes' worth.
const victimsKept = 64

// Incident is one shortage of one resource, from the first threshold met until the targets of
// the resource's signals have held for the transition period.
type Incident struct {
	// ID names the incident: the signal that was short first and when, in UTC to the
	// millisecond. It stays the same across a restart of the container.
	ID string `json:"id"`
	// Resource is what the node is short of.
	Resource decide.Resource `json:"resource"`
	// Signal is the one whose threshold was met first.
	Signal pressure.Signal `json:"signal"`
	// Began is when that was.
	Began time.Time `json:"began"`
	// HardSince is when one of its hard thresholds was first met; zero while none was.
	HardSince time.Time `json:"hardSince,omitzero"`
	// Short is when one of the resource's signals was last below its target, or not known.
	Short time.Time `json:"short"`
	// Lowest is the least that was available of Signal, in its unit.
	Lowest int64 `json:"lowest"`
	// Victims are the pods that were evicted, or would have been, the oldest first and 64 at
	// most; More counts those beyond that.
	Victims []Victim `json:"victims,omitempty"`
	More    int      `json:"more,omitempty"`
	// Warned says that the first candidate was told, while a grace period ran.
	Warned bool `json:"warned,omitempty"`
	// KillsBefore is how many processes the kernel had killed for want of memory since boot when the incident
	// began; negative where that is not known.
	KillsBefore int64 `json:"killsBefore"`
	// OOMKills is how many it killed in the incident; negative where that is not known. Kubelets are the pods
	// that the kubelet evicted in it, as namespace/name. Both mean nothing until it has ended.
	OOMKills int64    `json:"-"`
	Kubelets []string `json:"-"`
}

// Victim is a pod that was evicted in an incident, or would have been.
type Victim struct {
	// Pod is namespace/name, UID the API server's.
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// DryRun says that nothing happened to it.
	DryRun bool `json:"dryRun,omitempty"`
}

// add records a victim. A victim that is named already stays as it is, except that a real eviction
// replaces a simulated one.
func (i *Incident) add(v Victim) {
	at := slices.IndexFunc(i.Victims, func(known Victim) bool { return known.UID == v.UID })
	switch {
	case at >= 0:
		i.Victims[at].DryRun = i.Victims[at].DryRun && v.DryRun
	case len(i.Victims) >= victimsKept:
		i.More++
	default:
		i.Victims = append(i.Victims, v)
	}
}
