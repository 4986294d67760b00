package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/test/internal/node"
)

// measured waits until the kubelet's own figures show what the pods hold: it ends a pod that it has
// not measured before any other, and the pods of an incident are older than that.
func (t *turn) measured(ctx context.Context) error {
	var last error
	err := node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool {
		seen, unread := t.Node.Summary(ctx)
		if last = unread; last != nil {
			return false
		}
		for i := range t.pods {
			p := &t.pods[i]
			holds := int64(1)
			if !p.Waits {
				const most, of = 9, 10
				holds = max(1, p.UsesMiB*mebibyte*most/of)
			}
			disk := int64(0)
			if p.Grows != nil && !p.Waits {
				disk = p.Grows.MiB * mebibyte
			}
			if holding(seen, p.Name, holds, disk) < int(max(p.Replicas, 1)) {
				return false
			}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("waiting until the kubelet has measured the pods: %w", errors.Join(err, last))
	}
	return nil
}

// holding returns how many pods of the app hold that much memory and disk, in bytes, by the kubelet's figures.
func holding(seen *statsapi.Summary, app string, memory, disk int64) int {
	atLeast := func(figure *uint64, least int64) bool { return least == 0 || figure != nil && int64(*figure) >= least } //nolint:gosec // far below
	n := 0
	for i := range seen.Pods {
		p := &seen.Pods[i]
		if p.PodRef.Namespace == namespace && strings.HasPrefix(p.PodRef.Name, app+"-") && p.Memory != nil && atLeast(p.Memory.WorkingSetBytes, memory) &&
			(disk == 0 || p.EphemeralStorage != nil && atLeast(p.EphemeralStorage.UsedBytes, disk)) {
			n++
		}
	}
	return n
}
