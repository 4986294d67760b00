package evict

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// RequestTimeout is the time limit of an eviction request. It is longer than the API
// server's own handler (34 s, in which it retries conflicts on the budget), so that evictd
// receives the server's response.
const RequestTimeout = 35 * time.Second

// LookTimeout is the time limit of a read of a pod whose request is in doubt.
const LookTimeout = 5 * time.Second

// Evictor sends evictions. It is safe for concurrent use.
type Evictor struct {
	client rest.Interface
	now    func() time.Time
}

// New returns an evictor that uses the client of the core/v1 API. The client should not be
// shared, so that lists and events cannot starve evictions. Now is the clock.
func New(client rest.Interface, now func() time.Time) *Evictor {
	return &Evictor{client: client, now: now}
}

// Evict sends the request, which may be a delete, once and returns its outcome. It retries
// only for credentials that may have been renewed, and never sleeps: client-go would retry
// every response with a Retry-After header ten times inside the call, so that is disabled
// here. When the outcome is in doubt, Evict reads the pod once.
func (e *Evictor) Evict(ctx context.Context, r Request) Result {
	callers := ctx
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	sent := e.now()
	err := withTokenReadAgain(func() error { return e.send(ctx, r) })
	result := classify(err, r.Accepted())
	if result.Withdrawn = result.NoResponse && callers.Err() != nil; result.Withdrawn {
		result.Message = bounded(context.Cause(callers).Error())
	}
	result.Sent, result.Took = sent, e.now().Sub(sent)
	if result.Outcome == Unconfirmed {
		return e.confirm(context.WithoutCancel(ctx), r, result, mayBeDone(err))
	}
	return result
}

// send evicts the pod, or deletes it where the request says so. An eviction needs both names: the server
// compares the body's with the path's.
func (e *Evictor) send(ctx context.Context, r Request) error {
	if r.Delete {
		return e.client.Delete().Namespace(r.Namespace).Resource(kindPods).Name(r.Name).
			Body(options(r)).MaxRetries(0).Do(ctx).Error()
	}
	return e.client.Post().Namespace(r.Namespace).Resource(kindPods).Name(r.Name).SubResource("eviction").
		Body(&policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Name: r.Name, Namespace: r.Namespace},
			DeleteOptions: options(r),
		}).MaxRetries(0).Do(ctx).Error()
}

// confirm reads the pod after a request in doubt. A terminating pod counts as evicted,
// whatever the cause. So does an ended one where the request may have been carried out: a
// pod without a grace period ends at once. A pod that still runs proves nothing yet, because
// the request may still be in flight.
func (e *Evictor) confirm(ctx context.Context, r Request, doubtful Result, mayBeDone bool) Result {
	ctx, cancel := context.WithTimeout(ctx, LookTimeout)
	defer cancel()
	seen, err := e.Look(ctx, r)
	switch {
	case err != nil || seen == Unconfirmed:
		doubtful.Stays = err == nil
		return doubtful
	case !r.DryRun && (seen != Gone || mayBeDone):
		doubtful.Outcome = r.Accepted()
	default:
		doubtful.Outcome = Gone // not by this request
	}
	doubtful.Message += "; reading the pod again showed the outcome"
	return doubtful
}

// metadataAlone requests an object without its spec and status: a pod's environment may hold secrets.
const metadataAlone = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Look reads the pod of a request from the API server. The outcome is accepted where the pod is terminating, whatever
// the cause, and within the grace period of a request to shorten it; it is Gone where the pod does not exist, or
// another one has its name, and otherwise Unconfirmed. With an error it is unknown.
func (e *Evictor) Look(ctx context.Context, r Request) (Outcome, error) {
	var pod metav1.PartialObjectMetadata
	err := withTokenReadAgain(func() error {
		response := e.client.Get().Namespace(r.Namespace).Resource(kindPods).Name(r.Name).
			SetHeader("Accept", metadataAlone).MaxRetries(0).Do(ctx)
		body, err := response.Raw()
		if err != nil {
			return response.Error() // with the status in the body, which Raw leaves out
		}
		return json.Unmarshal(body, &pod)
	})
	switch s, _ := statusOf(err); {
	case IsNotFound(err) && isPod(&s):
		return Gone, nil
	case err != nil:
		return Unconfirmed, fmt.Errorf("reading the pod again: %w", err)
	case string(pod.UID) != r.UID:
		return Gone, nil
	case pod.DeletionTimestamp == nil || r.Shorten && ptr.Deref(pod.DeletionGracePeriodSeconds, 0) > *r.GraceSeconds:
		return Unconfirmed, nil
	default:
		return r.Accepted(), nil
	}
}

// withTokenReadAgain repeats a request once when the API server rejects the credentials, in
// which case it did nothing. A client re-reads its token file only for the request after
// such a response (client-go's transport/token_source.go), and the kubelet may have written
// a new token.
func withTokenReadAgain(send func() error) error {
	err := send()
	if apierrors.IsUnauthorized(err) {
		return send()
	}
	return err
}

// options identify the pod by its UID, and not by its resourceVersion too: the decision does
// not depend on the rest of the object, and the status of a failing pod changes all the
// time.
func options(r Request) *metav1.DeleteOptions {
	options := &metav1.DeleteOptions{GracePeriodSeconds: r.GraceSeconds, Preconditions: metav1.NewUIDPreconditions(r.UID)}
	if r.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}
