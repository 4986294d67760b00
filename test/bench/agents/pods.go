package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

// makeNode creates a node with running pods, and the pod of its agent with a token that is bound to it.
func (b *bench) makeNode(ctx context.Context, i int) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}
	if _, err := b.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making a node: %w", err)
	}
	for range b.pods {
		if err := b.makePod(ctx, i, corev1.PodRunning); err != nil {
			return err
		}
	}
	pod, err := b.client.CoreV1().Pods(evictdtest.AccountName).Create(ctx, evictdtest.OwnPod(nodeName(i)), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making an agent's pod: %w", err)
	}
	token, err := evictdtest.Token(ctx, b.client, pod)
	return errors.Join(err, os.Mkdir(b.path(i, ""), 0o700), os.WriteFile(b.path(i, "token"), []byte(token), 0o600))
}

// makePod creates a pod on a node and writes its phases, one after the other, as the kubelet does.
func (b *bench) makePod(ctx context.Context, i int, phases ...corev1.PodPhase) error {
	const usual = 3 << 10 // bytes: probes, environment, volumes, the states of containers
	pod, err := b.client.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "web-frontend-7c9f6d5b48-", Labels: map[string]string{"app.kubernetes.io/name": "web-frontend"},
			Annotations: map[string]string{"what-a-usual-pod-has": strings.Repeat("x", usual)},
		},
		Spec: corev1.PodSpec{NodeName: nodeName(i), Containers: []corev1.Container{{Name: "web", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("making a pod: %w", err)
	}
	b.names[i] = append(b.names[i], pod.Name)
	for _, phase := range phases {
		err = errors.Join(err, b.phase(ctx, pod.Name, phase))
	}
	return err
}

func (b *bench) phase(ctx context.Context, name string, phase corev1.PodPhase) error {
	patch := fmt.Appendf(nil, `{"status": {"phase": %q}}`, phase)
	_, err := b.client.CoreV1().Pods(metav1.NamespaceDefault).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("writing the phase of a pod: %w", err)
	}
	return nil
}

// replace ends a node's oldest pod and starts another, with the writes of a scheduler and a kubelet: six
// changes of pods of that node.
func (b *bench) replace(ctx context.Context, i int) error {
	pods, name := b.client.CoreV1().Pods(metav1.NamespaceDefault), b.names[i][0]
	b.names[i] = b.names[i][1:]
	b.replaced++
	err := pods.Delete(ctx, name, metav1.DeleteOptions{})
	err = errors.Join(err, b.phase(ctx, name, corev1.PodSucceeded), pods.Delete(ctx, name, evictdtest.AtOnce()))
	if err != nil {
		return fmt.Errorf("ending pod %s: %w", name, err)
	}
	return b.makePod(ctx, i, corev1.PodPending, corev1.PodRunning)
}

// replaceFor replaces pods for that long, one on each node in turn, with an agent or without: as many as if
// 10 % of 110 pods on each node were replaced in an hour, but for the time that it takes.
func (b *bench) replaceFor(ctx context.Context, period time.Duration) (err error) {
	const full, share = 110, 10
	const step = 7919 // coprime to the number of nodes: those with an agent are met in their share
	pause := time.Hour / time.Duration(b.agents*full/share)
	for end := time.Now().Add(period); err == nil && time.Now().Before(end); {
		err = errors.Join(b.replace(ctx, b.replaced*step%b.agents), measure.Sleep(ctx, pause))
	}
	return err
}
