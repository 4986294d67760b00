package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/internal/eventually"
)

// Kill ends evictd's process as a crash would, and waits until the kubelet has started the next one
// and it has received the node's pods.
func (n *Node) Kill(ctx context.Context) error {
	before, err := n.EvictdPod(ctx)
	if err != nil {
		return err
	}
	process, err := EvictdProcess(before)
	if err != nil {
		return err
	}
	if err = syscall.Kill(process, syscall.SIGKILL); err != nil {
		return fmt.Errorf("killing evictd: %w", err)
	}
	err = eventually.Poll(ctx, func(ctx context.Context) bool {
		now, unread := n.EvictdPod(ctx)
		if unread != nil {
			return false
		}
		status := now.Status.ContainerStatuses[0]
		return status.RestartCount > before.Status.ContainerStatuses[0].RestartCount && status.Ready
	})
	if err != nil {
		return fmt.Errorf("waiting for evictd to run again: %w", err)
	}
	return nil
}

// EvictdPod returns evictd's pod, whose container has a status.
func (n *Node) EvictdPod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := n.Client.CoreV1().Pods(Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("looking for evictd's pod: %w", err)
	}
	if len(pods.Items) != 1 || len(pods.Items[0].Status.ContainerStatuses) != 1 {
		return nil, fmt.Errorf("looking for evictd's pod: there are %d, or its container has no status yet", len(pods.Items))
	}
	return &pods.Items[0], nil
}

// EvictdProcess returns the process of evictd's container, found by the pod's cgroup.
func EvictdProcess(pod *corev1.Pod) (int, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return 0, fmt.Errorf("looking for evictd's process: %w", err)
	}
	for _, group := range groups {
		dir := filepath.Dir(group)
		in, _ := os.ReadFile(group)                        //nolint:gosec // of /proc; it may have ended
		name, _ := os.ReadFile(filepath.Join(dir, "comm")) //nolint:gosec // the same
		if bytes.Contains(in, []byte("pod"+string(pod.UID))) && string(name) == "evictd\n" {
			process, err := strconv.Atoi(filepath.Base(dir))
			if err != nil {
				return 0, fmt.Errorf("looking for evictd's process: %w", err)
			}
			return process, nil
		}
	}
	return 0, errors.New("looking for evictd's process: none is in its pod's cgroup")
}
