package state

import (
	"time"

	"github.com/evictd/evictd/internal/cooldown"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/incident"
	"github.com/evictd/evictd/internal/inflight"
	"github.com/evictd/evictd/pkg/pressure"
)

// State is all that is kept. The zero value knows of nothing, which is not the same as that
// nothing is known. The entries of each list are the oldest first.
type State struct {
	// Incidents are those that are open.
	Incidents []incident.State `json:"incidents,omitempty"`
	// InFlight are the victims in flight.
	InFlight inflight.State `json:"inFlight,omitzero"`
	// Cooldown is which pods may not be evicted for now.
	Cooldown cooldown.State `json:"cooldown,omitzero"`
	// InDoubt are the requests whose outcome is not known: they are about to be sent, or were
	// not answered. There is one for a resource at most, and none is left out for its size.
	InDoubt []Request `json:"inDoubt,omitempty"`
}

// Request is one eviction request whose outcome is not known, with what is needed to book
// its victim once it is.
type Request struct {
	// Namespace, Name and UID are the pod's. Owner, OwnerUID and OwnerAPIVersion are those of
	// its controller, "" for a bare pod.
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	UID             string `json:"uid"`
	Owner           string `json:"owner,omitempty"`
	OwnerUID        string `json:"ownerUID,omitempty"`
	OwnerAPIVersion string `json:"ownerAPIVersion,omitempty"`
	// Created is when the pod was made, by the API server's clock; PodGraceSeconds is its own
	// grace period, in seconds.
	Created         time.Time `json:"created"`
	PodGraceSeconds int64     `json:"podGraceSeconds,omitempty"`
	// Priority, Usage and Requested are what it was ranked by, the latter two in the unit of
	// the signal's resource. Ready says that its condition Ready was true.
	Priority  int32 `json:"priority,omitempty"`
	Usage     int64 `json:"usage,omitempty"`
	Requested int64 `json:"requested,omitempty"`
	Ready     bool  `json:"ready,omitempty"`
	// GraceSeconds is the grace period in the request, in seconds; nil is the pod's own.
	GraceSeconds *int64 `json:"graceSeconds,omitempty"`
	// BypassedPDB names the budget that a delete bypassed; "" for an eviction.
	BypassedPDB string `json:"bypassedPDB,omitempty"`
	// Expected is what the pod's end should free.
	Expected pressure.Amounts `json:"expected,omitzero"`
	// Incident is the ID of the incident that it was sent in, Shortage the threshold.
	Incident string   `json:"incident,omitempty"`
	Shortage Shortage `json:"shortage"`
	// First is when it was sent, or when the first of several for this pod was that had no
	// known outcome; Sent is when the last one was.
	First time.Time `json:"first"`
	Sent  time.Time `json:"sent"`
	// Stays says that the pod was read after it, and was there and not terminating.
	Stays   bool      `json:"stays,omitempty"`
	Expires time.Time `json:"expires"`
}

// Shortage is the threshold that a request was sent for, with the reading that met it, in the
// signal's unit.
type Shortage struct {
	// Signal is the signal's name.
	Signal string `json:"signal"`
	// Hard says that the threshold is a hard one.
	Hard bool `json:"hard,omitempty"`
	// Line is the threshold, Target the line and the minimum reclaim.
	Line   int64 `json:"line"`
	Target int64 `json:"target"`
	// Available and Capacity are the reading.
	Available int64 `json:"available"`
	Capacity  int64 `json:"capacity"`
	// Since is when the threshold was first met.
	Since time.Time `json:"since"`
	// Resource is what the node was short of.
	Resource decide.Resource `json:"resource"`
}
