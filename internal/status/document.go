// Package status answers: what does a running evictd know of its node? It has the one document that
// an agent serves at /debug/status, with its tables and its stories for people, and the way from a
// saved document back to the ranking. docs/cli.md lists the fields.
//
// Unknown is never 0: what is not known is missing in the document, and what must be there is
// required of a file. All of it are values; the package reads no node and sends no request.
package status

import (
	"encoding/json"
	"time"

	"github.com/evictd/evictd/internal/acting"
	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/internal/decide"
	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/usage"
)

// APIVersion and Kind are what every document says it is.
const (
	APIVersion = "evictd.dev/v1alpha1"
	Kind       = "NodeStatus"
)

// Document is what a running evictd knows of its node at one moment, by the node's clock. The fields
// from Configuration to DiskUnmeasured, with Signals, InFlight and BackOffs, are what the ranking is
// made of: see [Document.Rank].
type Document struct {
	// APIVersion and Kind are the constants of this package.
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// EvictdVersion is the running evictd's, Revision the source that it was built from; "" where
	// that is not known.
	EvictdVersion string `json:"evictdVersion"`
	Revision      string `json:"revision,omitempty"`
	// NodeName is the node's name in the API.
	NodeName string `json:"nodeName"`
	// Time is when the document was made, and LastTick when the last look at the node began; the zero
	// time before the first.
	Time     time.Time `json:"time"`
	LastTick time.Time `json:"lastTick,omitzero"`
	// Enforcement says whether pods are evicted; otherwise each eviction is a server-side dry run.
	Enforcement acting.State `json:"enforcement"`
	// Signals are those that have a threshold, as they were last read.
	Signals []Signal `json:"signals,omitempty"`
	// InFlight are the pods in flight, the oldest first.
	InFlight []decide.Victim `json:"inFlight,omitempty"`
	// BackOffs are all that keeps a request from being sent for now.
	BackOffs []BackOff `json:"backOffs,omitempty"`
	// Ranking is the order for one signal, and Unranked why there is none; "" where there is.
	Ranking  *Ranking `json:"ranking,omitempty"`
	Unranked string   `json:"unranked,omitempty"`
	// Decisions are the last ones as the log has them, the newest first.
	Decisions []json.RawMessage `json:"decisions,omitempty"`

	// Configuration is the one that applies, with every default spelled out; ConfigurationRefused is why the file as it is
	// now does not, "" where it does.
	Configuration        *config.EvictdConfiguration `json:"configuration"`
	ConfigurationRefused string                      `json:"configurationRefused,omitempty"`
	// Pods are the node's that have not finished, by namespace and name. PodsUnknown says why the list
	// is not complete or too old; "" where it is neither.
	Pods        []Pod  `json:"pods"`
	PodsUnknown string `json:"podsUnknown,omitempty"`
	// UsageUnread says why pods lack Usage; "" when all cgroups were read.
	UsageUnread string `json:"usageUnread,omitempty"`
	// DiskMeasured is when the pods' use of the disks was last measured, and the zero time where it was
	// not; DiskUnmeasured says why then, "" where nothing asked for it.
	DiskMeasured   time.Time `json:"diskMeasured,omitzero"`
	DiskUnmeasured string    `json:"diskUnmeasured,omitempty"`
}

// Signal is the last reading of a signal, in its unit, with its thresholds.
type Signal struct {
	Name pressure.Signal `json:"name"`
	// State is Known, Unknown or Absent, as package pressure has them.
	State string `json:"state"`
	// Device is the filesystem's, as [pressure.Observation] has it.
	Device uint64 `json:"-"`
	// Available and Capacity are nil unless the state is Known. Available may be negative.
	Available *int64 `json:"available,omitempty"`
	Capacity  *int64 `json:"capacity,omitempty"`
	// Reason says why the state is not Known; "" when it is.
	Reason string `json:"reason,omitempty"`
	// Under says that it counts as under pressure: a threshold is met, or was within the transition
	// period.
	Under bool `json:"underPressure,omitempty"`
	// ForecastSeconds is when its hard threshold is met as things go; nil when that is not known, or
	// never.
	ForecastSeconds *float64 `json:"forecastSeconds,omitempty"`
	// KubeletLine is below what the kubelet evicts, in evictd's measure; nil where that is not known.
	KubeletLine *int64 `json:"kubeletLine,omitempty"`
	// Thresholds are the signal's, hard before soft, as the configuration has them.
	Thresholds []Threshold `json:"thresholds,omitempty"`
}

// Threshold is a line that a signal should not fall below.
type Threshold struct {
	// Kind is Hard or Soft.
	Kind string `json:"kind"`
	// Line is where it lies, in the signal's unit; nil while the signal is not known.
	Line *int64 `json:"line,omitempty"`
	// Since is when it was first met without a break, the zero time where it is not met; Holds says
	// that it has been met for its grace period.
	Since time.Time `json:"since,omitzero"`
	Holds bool      `json:"holds,omitempty"`
}

// What backs off.
const (
	OfServer = "Server" // no request is sent at all
	OfNode   = "Node"   // no pod of the node is evicted
	OfOwner  = "Owner"  // no pod of one controller is
	OfPod    = "Pod"    // one pod is not
)

// BackOff is something that keeps requests from being sent for now.
type BackOff struct {
	// Of is one of the constants above. Name is the pod's namespace/name or the owner's kind/name; ""
	// for the others.
	Of   string `json:"of"`
	Name string `json:"name,omitempty"`
	// UID is the pod's or the owner's; "" for the others.
	UID string `json:"uid,omitempty"`
	// Until is when it ends if nothing else happens; Why is one clause.
	Until time.Time `json:"until"`
	Why   string    `json:"why"`
}

// Pod is a pod of the node with what it uses.
type Pod struct {
	nodepods.Pod

	// Usage is what its cgroup says; nil where it was not read.
	Usage *usage.Pod `json:"usage,omitempty"`
	// Disk is what it uses of the disks, by signal and in the signal's unit. A signal that is missing
	// is not known.
	Disk pressure.Amounts `json:"disk,omitzero"`
}

// Ranking is the order of eviction for one signal: what `evictd rank -o json` prints.
type Ranking struct {
	// Node and Time are the document's.
	Node string    `json:"node"`
	Time time.Time `json:"time"`
	// Signal is what the pods are ranked for. Available and Capacity are its, in its unit; nil where
	// they are not known.
	Signal    pressure.Signal `json:"signal"`
	Available *int64          `json:"available,omitempty"`
	Capacity  *int64          `json:"capacity,omitempty"`
	// Resource is what they are ranked by.
	Resource string `json:"resource"`
	// Candidates are in the order of eviction, Protected by namespace and name.
	Candidates []Entry `json:"candidates"`
	Protected  []Entry `json:"protected"`
}

// Entry is one pod of a ranking. Amounts are in the resource's unit.
type Entry struct {
	// Rank counts from 1 among the candidates; 0 for a protected pod.
	Rank      int    `json:"rank,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	Owner     string `json:"owner,omitempty"`
	Priority  int32  `json:"priority"`
	// Queue is "" where no queues are configured; Effective is then the pod's own priority.
	Queue     string `json:"queue,omitempty"`
	Effective int32  `json:"effectivePriority"`
	// Usage and Over are nil where the usage is not known.
	Usage *int64 `json:"usage,omitempty"`
	// WorkingSet and Reclaim are two figures of the pod's memory in bytes, one of which is the usage;
	// nil for other resources.
	WorkingSet *int64 `json:"workingSet,omitempty"`
	Reclaim    *int64 `json:"reclaim,omitempty"`
	Request    int64  `json:"request"`
	Over       *int64 `json:"over,omitempty"`
	Exceeds    bool   `json:"exceeds"`
	Grace      int64  `json:"graceSeconds"`
	// Protection is why it may not be evicted; "" for a candidate. Reason is its place in a sentence.
	Protection string `json:"protection,omitempty"`
	Reason     string `json:"reason"`
}
