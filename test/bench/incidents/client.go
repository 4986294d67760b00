package main

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/test/internal/pages"
)

// client is a steady client: it asks for a page at an interval, each time on a new connection, and waits a second at
// most.
type client struct{ asked, failed int }

// run asks until the context ends. It does not make up for what it has missed.
func (c *client) run(ctx context.Context, url string) {
	const every = 50 * time.Millisecond
	asks := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		_, code, err := pages.Get(ctx, asks, url)
		if ctx.Err() != nil {
			return // the last request was cut
		}
		c.asked++
		if err != nil || code != http.StatusOK {
			c.failed++
		}
	}, every)
}
