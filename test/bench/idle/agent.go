package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/evictdtest"
	"github.com/evictd/evictd/test/internal/measure"
)

func nodeName(i int) string { return fmt.Sprintf("calm-%d", i) }

// token is the file of an agent's token.
func (b *bench) token(i int) string { return filepath.Join(b.dir, nodeName(i)+".token") }

// makeNode creates a node with running pods, and the pod of its agent with a token that is bound to it. It returns
// the pods' UIDs.
func (b *bench) makeNode(ctx context.Context, i int) ([]types.UID, error) {
	var uids []types.UID
	total, err := measure.Bytes("/proc/meminfo", "MemTotal")
	if err != nil {
		return nil, err
	}
	_, err = b.cluster.Client().CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(total, resource.BinarySI)}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making a node: %w", err)
	}
	for range b.pods {
		uid, unmade := b.makePod(ctx, i)
		if unmade != nil {
			return nil, unmade
		}
		uids = append(uids, uid)
	}
	pod, err := b.cluster.Client().CoreV1().Pods(evictdtest.AccountName).Create(ctx, evictdtest.OwnPod(nodeName(i)), metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("making an agent's pod: %w", err)
	}
	token, err := evictdtest.Token(ctx, b.cluster, pod)
	return uids, errors.Join(err, os.WriteFile(b.token(i), []byte(token), 0o600))
}

// makePod creates a running pod on a node, and returns its UID.
func (b *bench) makePod(ctx context.Context, i int) (types.UID, error) {
	pods := b.cluster.Client().CoreV1().Pods(metav1.NamespaceDefault)
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-frontend-7c9f6d5b48-", Labels: map[string]string{"app.kubernetes.io/name": "web-frontend"}},
		Spec: corev1.PodSpec{NodeName: nodeName(i), Containers: []corev1.Container{{
			Name: "web", Image: "none",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}},
		}}},
	}, metav1.CreateOptions{})
	if err == nil {
		pod.Status.Phase = corev1.PodRunning
		pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", fmt.Errorf("making a pod: %w", err)
	}
	return pod.UID, nil
}

// start starts the agent of a node.
func (b *bench) start(i int, host *evictdtest.Host, settings string, more ...string) (*evictdtest.Process, error) {
	dir, err := os.MkdirTemp(b.dir, nodeName(i)+"-")
	if err != nil {
		return nil, fmt.Errorf("making an agent's folder: %w", err)
	}
	address := fmt.Sprintf("127.77.%d.%d:9464", i/250, 1+i%250) // its own: of two hundred free ports two are the same
	config := b.cluster.RESTConfig()
	command, err := evictdtest.Options{
		Host: host, Node: nodeName(i), Server: strings.TrimPrefix(config.Host, "https://"), CA: config.CAData, TokenFile: b.token(i),
		Settings: "dryRun: true\n" + settings,
	}.Command(os.Getenv("EVICTD_BIN"), dir, address)
	if err != nil {
		return nil, err
	}
	command.Args, command.Env = append(command.Args, more...), append(command.Env, "GOMEMLIMIT=56MiB")
	return evictdtest.Run(command, address)
}

// ready waits until an agent is: it has its node's pods.
func ready(ctx context.Context, agent *evictdtest.Process) error {
	err := eventually.Poll(ctx, func(ctx context.Context) bool {
		status, _ := agent.Get(ctx, "/readyz")
		return status == http.StatusOK
	})
	if err != nil {
		return fmt.Errorf("waiting for evictd to be ready: %w: %s", err, agent.Log)
	}
	return nil
}

// requests is how many requests agents have made.
func (b *bench) requests() (float64, error) {
	audit, err := os.ReadFile(b.cluster.AuditLog())
	return float64(bytes.Count(audit, []byte(`"userAgent":"evictd/`))), err
}

// sleep waits for a window.
func (b *bench) sleep(ctx context.Context, _ *evictdtest.Process) error {
	return measure.Sleep(ctx, b.window)
}

// askAsACluster probes as the shipped manifest does and scrapes at a common Prometheus interval, for a window.
func (b *bench) askAsACluster(ctx context.Context, agent *evictdtest.Process) error {
	end := time.Now().Add(b.window)
	for second := 1; time.Now().Before(end); second++ {
		if err := measure.Sleep(ctx, min(time.Second, time.Until(end))); err != nil {
			return err
		}
		for path, every := range map[string]int{"/readyz": 5, "/livez": 10, "/metrics": 15} {
			if second%every != 0 {
				continue
			}
			if status, text := agent.Get(ctx, path); status != http.StatusOK {
				return fmt.Errorf("requesting %s from evictd: status %d: %s", path, status, text)
			}
		}
	}
	return nil
}
