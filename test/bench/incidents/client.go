package main

import (
	"context"
	"net/http"
	"time"

	"github.com/evictd/evictd/test/internal/pages"
)

// client is a steady client: it asks for a page at an interval, each time on a new connection, and waits a second at
// most.
type client struct{ asked, failed int }

// run asks until the context ends. It does not make up for what it has missed.
func (c *client) run(ctx context.Context, url string) {
	const every = 50 * time.Millisecond
	asks := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	next := time.NewTicker(every)
	defer next.Stop()
	for {
		_, code, err := pages.Get(ctx, asks, url)
		if ctx.Err() != nil {
			return // the last request was cut
		}
		c.asked++
		if err != nil || code != http.StatusOK {
			c.failed++
		}
		select {
		case <-next.C:
		case <-ctx.Done():
		}
	}
}
