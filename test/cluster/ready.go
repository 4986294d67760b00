package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
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
func (c *Cluster) answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		authority, err := os.ReadFile(c.CA())
		if err != nil {
			return fmt.Errorf("reading the certificate of the authority: %w", err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		return get(ctx, &http.Client{
			Timeout: 5 * time.Second,
			Transport: &http.Transport{
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13},
			},
		}, url)
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only the status matters
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s", url, response.Status)
	}
	return nil
}

// tail returns the end of a process's log, to end an error with.
func (c *Cluster) tail(name string) string {
	content, err := os.ReadFile(c.LogFile(name))
	if err != nil || len(content) == 0 {
		return ""
	}
	return fmt.Sprintf("\nthe log of %s ends:\n%s", name, lastLines(string(content), 25))
}
