package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/memory"
	"github.com/evictd/evictd/test/internal/node"
)

// kubeletHeadroom is how many MiB below its memory.available, while guarded and modest run, the
// kubelet's threshold is: greedy crosses it, and the end of either pod is enough.
const kubeletHeadroom = 600

// kubeletAlone removes evictd, gives the kubelet a threshold, starts greedy again and shows which pod
// the kubelet evicts, and when.
func (d *demo) kubeletAlone(ctx context.Context) error {
	if err := d.node.Client.AppsV1().DaemonSets(node.Namespace).Delete(ctx, "evictd", metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("removing evictd: %w", err)
	}
	readings, err := memory.Open()
	if err != nil {
		return err
	}
	defer readings.Close()
	available, err := readings.WorkingSet()
	if err != nil {
		return err
	}
	line := available - kubeletHeadroom<<20
	if err = d.node.Cluster.SetEvictionHard(ctx, map[string]string{node.NodeMemory: strconv.FormatInt(line, 10)}); err != nil {
		return err
	}
	d.show(fmt.Sprintf("the kubelet's threshold: memory.available below %d MiB, which is %d MiB less than now", line>>20, kubeletHeadroom))
	if err = d.deploy(ctx, greedy()); err != nil {
		return err
	}
	err = node.Until(ctx, time.Minute, func(context.Context) bool {
		left, unread := readings.WorkingSet()
		return unread == nil && left < line
	})
	if err != nil {
		return fmt.Errorf("waiting until greedy has taken its memory: %w", err)
	}
	return d.kubeletEvicts(ctx, time.Now())
}

// kubeletEvicts waits for the kubelet's victim and says which it is.
func (d *demo) kubeletEvicts(ctx context.Context, crossed time.Time) error {
	var victim, message string
	err := node.Until(ctx, time.Minute, func(ctx context.Context) bool {
		list, err := d.node.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false
		}
		for i := range list.Items {
			if c := node.EndedByKubelet(&list.Items[i]); c != nil {
				victim, message = list.Items[i].Name, c.Message
				return true
			}
		}
		return false
	})
	if err != nil {
		return fmt.Errorf("waiting for the kubelet to evict a pod: %w", err)
	}
	d.say("%.1f s after the crossing the kubelet has ended %s. It does not check PodDisruptionBudgets.", time.Since(crossed).Seconds(), victim)
	d.show(message)
	pods, err := d.node.Kubectl(ctx, "-n", namespace, "get", "pods")
	d.show(pods)
	return err
}
