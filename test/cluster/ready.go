package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// awaitReady waits until the probe succeeds, or the process ends.
func (c *Cluster) awaitReady(ctx context.Context, found *component) error {
	var last error
	err := pollFor(ctx, c.wait, func(ctx context.Context) (bool, error) {
		if !found.process.Load().running() {
			return false, errors.New("it ended")
		}
		last = found.probe(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s to be ready: %w%s", found.name, errors.Join(err, last), c.tail(found.name))
	}
	return nil
}

// answers is a probe that asks for a page.
func (c *Cluster) answers(server, path string) func(context.Context) error {
	return func(ctx context.Context) error {
		client, err := rest.UnversionedRESTClientFor(&rest.Config{
			Host: server, TLSClientConfig: rest.TLSClientConfig{CAFile: c.CA()}, Timeout: 5 * time.Second,
			ContentConfig: rest.ContentConfig{NegotiatedSerializer: scheme.Codecs},
		})
		if err != nil {
			return fmt.Errorf("making a client: %w", err)
		}
		return client.Get().AbsPath(path).Do(ctx).Error()
	}
}

// tail returns the end of a process's log, to end an error with.
func (c *Cluster) tail(name string) string {
	content, err := os.ReadFile(c.LogFile(name))
	if err != nil || len(content) == 0 {
		return ""
	}
	return fmt.Sprintf("\nthe log of %s ends:\n%s", name, lastLines(string(content), 25))
}
