package taint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/evictd/evictd/pkg/evict"
)

const (
	// requestTimeout bounds reading the node and changing it.
	requestTimeout = 5 * time.Second
	// conflictsInARow is how often another client may change the node between reading and writing
	// before a change is deferred: a kubelet writes every ten seconds at most.
	conflictsInARow = 10
)

// apply reads the node and changes evictd's taints on it, repeatedly while another client changes
// the node in between. It returns evictd's taints before and after.
func (k *Keeper) apply(ctx context.Context, c change) (before, after Set, err error) {
	err = retry.RetryOnConflict(wait.Backoff{Steps: conflictsInARow}, func() (err error) {
		before, after, err = k.applyOnce(ctx, c)
		return err
	})
	return before, after, err
}

func (k *Keeper) applyOnce(ctx context.Context, c change) (before, after Set, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := k.options.Nodes.Get(ctx, k.options.Node, metav1.GetOptions{})
	if err != nil {
		return 0, 0, fmt.Errorf("reading the node: %w", err)
	}
	before = on(node)
	after = c.want.real(before)
	options := metav1.PatchOptions{}
	if c.dryRun {
		after, options.DryRun = before|c.want.Pressures, []string{metav1.DryRunAll}
	}
	if before == after {
		return before, after, nil
	}
	text, err := patch(node, with(node.Spec.Taints, after))
	if err != nil {
		return before, after, err
	}
	if _, err = k.options.Nodes.Patch(ctx, node.Name, types.MergePatchType, text, options); err != nil && evict.MayBeDone(err) {
		err = &unansweredError{err}
	}
	return before, after, err
}

// unansweredError is the fault of a patch that may have been carried out all the same.
type unansweredError struct{ err error }

// Error returns the fault.
func (e *unansweredError) Error() string { return e.err.Error() }

// Unwrap returns the fault.
func (e *unansweredError) Unwrap() error { return e.err }

// patch is a merge patch, which replaces the whole list of taints: they have no key by which a list
// could be merged. The version that was read makes it safe: the API server refuses it with a
// conflict when another client has changed the node since.
func patch(node *corev1.Node, taints []corev1.Taint) ([]byte, error) {
	if node.ResourceVersion == "" {
		return nil, errors.New("the node that was read has no version, and a change could overwrite somebody else's")
	}
	type meta struct {
		ResourceVersion string `json:"resourceVersion"`
	}
	type spec struct {
		Taints []corev1.Taint `json:"taints"`
	}
	text, err := json.Marshal(struct {
		Metadata meta `json:"metadata"`
		Spec     spec `json:"spec"`
	}{meta{node.ResourceVersion}, spec{taints}})
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return text, nil
}
