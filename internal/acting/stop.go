package acting

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/evictd/evictd/internal/nodepods"
	"github.com/evictd/evictd/internal/wording"
)

const (
	// StopName is the name of the ConfigMap that stops all agents while it exists.
	StopName = "evictd-stop"
	// StopReason is the key of its data that says why.
	StopReason = "reason"
	// onlyStop selects that name, as the Role allows no other.
	onlyStop = "metadata.name=" + StopName
	// reasonLimit is how many bytes of the reason are quoted.
	reasonLimit = 200
	// refusedFor is how long the last answer holds while the API server refuses another. A server that
	// starts refuses for some seconds, before it has read its roles.
	refusedFor = 30 * time.Second
)

// Acting follows the ConfigMap that stops all agents, by a watch on that one name. Its methods may be
// called from several goroutines.
//
// While there is no answer at all, the last one holds without a limit. All requests of an agent use one
// connection: where this one has no answer, an eviction has none either, so that there is nothing to
// stop. A server that refuses this request may still accept evictions; so its last answer holds for
// refusedFor only, and then counts as unknown, whatever follows the first refusal.
type Acting struct {
	client  nodepods.Client[*corev1.ConfigMapList]
	key     string // namespace/name
	now     func() time.Time
	changed chan struct{} // holds one value after a change

	mu      sync.Mutex        // guards all below
	known   bool              // the API server has answered at least once
	stop    *corev1.ConfigMap // nil where there is none
	refused time.Time         // since when the API server refuses an answer; zero when it does not
	fault   error             // the first since its last answer; nil when there is none
}

// New returns an Acting that sends nothing yet, by a client of the ConfigMaps of a namespace; see [Acting.Run].
// Until then nothing is known.
func New(client nodepods.Client[*corev1.ConfigMapList], namespace string, now func() time.Time) *Acting {
	return &Acting{client: client, key: namespace + "/" + StopName, now: now, changed: make(chan struct{}, 1)}
}

// Changed returns the channel that holds a value after something was found out: what [Acting.Of]
// returns may have changed.
func (a *Acting) Changed() <-chan struct{} { return a.changed }

// Run follows the ConfigMap until the context ends. It may be called once. On a node that reaches the API server
// again a stop is in force within five seconds.
func (a *Acting) Run(ctx context.Context) error {
	store := cache.NewUndeltaStore(a.set, cache.MetaNamespaceKeyFunc)
	nodepods.Follow(ctx, a.client, onlyStop, &corev1.ConfigMap{}, store, a.failed, a.answered)
	return nil
}

// failed notes a request that failed.
func (a *Acting) failed(err error) {
	a.note(func() {
		var answered apierrors.APIStatus
		if errors.As(err, &answered) && a.refused.IsZero() {
			a.refused, a.fault = a.now(), err
		}
		a.fault = cmp.Or(a.fault, err)
	})
}

// answered notes an answer: what is known goes on.
func (a *Acting) answered() {
	a.note(func() { a.known, a.refused, a.fault = true, time.Time{}, nil })
}

// set notes what there is: the ConfigMap or nothing.
func (a *Acting) set(objects []any) {
	a.note(func() {
		a.known, a.stop, a.refused, a.fault = true, nil, time.Time{}, nil
		for _, object := range objects {
			if found, is := object.(*corev1.ConfigMap); is && found.Name == StopName {
				a.stop = found
			}
		}
	})
}

// note makes a change. It does not block.
func (a *Acting) note(change func()) {
	a.mu.Lock()
	change()
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default: // it is noted already
	}
}

// state returns what follows for an agent from the ConfigMap alone.
func (a *Acting) state() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.known || !a.refused.IsZero() && a.now().Sub(a.refused) >= refusedFor:
		return a.unknown()
	case a.stop == nil:
		return State{}
	}
	why := ", and gives no reason"
	if reason := a.stop.Data[StopReason]; reason != "" {
		why = `: "` + wording.Shorten(wording.OneLine(reason), reasonLimit) + `"`
	}
	return State{Reason: Stopped, Why: "ConfigMap " + a.key + " stops it" + why, Do: "delete ConfigMap " + a.key + " to let it act again"}
}

// unknown is the state while it is not known whether the ConfigMap exists.
func (a *Acting) unknown() State {
	unknown := State{Reason: StopUnknown, Unanswered: !a.known, Why: "it is not known whether ConfigMap " + a.key + " exists"}
	switch {
	case a.fault == nil:
		unknown.Why = "it is not known yet whether ConfigMap " + a.key + " exists"
	case apierrors.IsForbidden(a.fault):
		unknown.Why += ", which the account may not watch"
		unknown.Do = "apply the Role and the RoleBinding evictd of deploy/daemonset.yaml"
	default:
		unknown.Why += ": " + wording.OneLine(a.fault.Error())
		unknown.Do = "check the connection to the API server"
	}
	return unknown
}
