package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/test/internal/node"
)

// kubeletsHealth is a client of the kubelet's own health.
func (t *turn) kubeletsHealth(ctx context.Context) (*client, error) {
	asks, address, err := t.kubelet(ctx)
	if err != nil {
		return nil, err
	}
	asks.Timeout = clientsAnswer
	return &client{http: asks, url: address + "/healthz", every: heartbeat}, nil
}

// kubelet returns a client of the kubelet, and its address.
func (t *turn) kubelet(ctx context.Context) (*http.Client, string, error) {
	current, err := t.node.Client.CoreV1().Nodes().Get(ctx, t.node.Name(), metav1.GetOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubelet's port: %w", err)
	}
	asks, err := rest.HTTPClientFor(t.node.Cluster.RESTConfig())
	if err != nil {
		return nil, "", fmt.Errorf("building a client of the kubelet: %w", err)
	}
	return asks, fmt.Sprintf("https://127.0.0.1:%d", current.Status.DaemonEndpoints.KubeletEndpoint.Port), nil
}

// measured waits until the kubelet's own figures show what the pods hold: it ends a pod that it has
// not measured before any other, and the pods of an incident are older than that.
func (t *turn) measured(ctx context.Context) error {
	asks, address, err := t.kubelet(ctx)
	if err != nil {
		return err
	}
	var last error
	err = node.Until(ctx, 2*time.Minute, func(ctx context.Context) bool {
		seen, unread := figures(ctx, asks, address+"/stats/summary")
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
			if seen.holding(p.Name, holds, disk) < int(max(p.Replicas, 1)) {
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

// summary is the part of the kubelet's Summary that is read.
type summary struct {
	Pods []struct {
		Ref struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"podRef"`
		Memory struct {
			WorkingSet int64 `json:"workingSetBytes"`
		} `json:"memory"`
		Disk struct {
			Used int64 `json:"usedBytes"`
		} `json:"ephemeral-storage"`
	} `json:"pods"`
}

// holding returns how many pods of the app hold that much memory and disk, in bytes.
func (s *summary) holding(app string, memory, disk int64) int {
	n := 0
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Ref.Namespace == namespace && strings.HasPrefix(p.Ref.Name, app+"-") && p.Memory.WorkingSet >= memory && p.Disk.Used >= disk {
			n++
		}
	}
	return n
}

// figures reads the kubelet's Summary.
func figures(ctx context.Context, asks *http.Client, url string) (*summary, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's summary: %w", err)
	}
	response, err := asks.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's summary: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // only read
	var s summary
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		return nil, fmt.Errorf("parsing the kubelet's summary: %w", err)
	}
	return &s, nil
}
