package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/evictd/evictd/test/internal/measure"
)

// client is a steady client: it asks for a page at an interval, each time on a new connection,
// and waits a second at most.
type client struct {
	http  *http.Client // with clientsAnswer as its timeout
	url   string
	every time.Duration

	mu            sync.Mutex
	asked, failed int
	answers       []time.Time
}

const (
	clientEvery   = 50 * time.Millisecond
	heartbeat     = 100 * time.Millisecond
	clientsAnswer = time.Second
)

// run asks until the context ends.
func (c *client) run(ctx context.Context) {
	for next := time.Now(); ctx.Err() == nil; next = next.Add(c.every) {
		_ = measure.Sleep(ctx, time.Until(next)) // the loop asks the context
		answered := c.ask(ctx)
		if ctx.Err() != nil {
			return // the last request was cut
		}
		c.mu.Lock()
		c.asked++
		if answered {
			c.answers = append(c.answers, time.Now())
		} else {
			c.failed++
		}
		c.mu.Unlock()
		next = later(next, time.Now().Add(-c.every)) // it does not make up for what it has missed
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (c *client) ask(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, http.NoBody)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := c.http.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

// told returns how many requests there were, how many failed, and when the others were answered.
func (c *client) told() (asked, failed int, answers []time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.failed, append(answers, c.answers...)
}

// beats reads the heartbeat of a pod.
func beats(name string) ([]time.Time, error) {
	file, err := os.Open(name) //nolint:gosec // the run's own folder
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	var times []time.Time
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if ns, err := strconv.ParseInt(lines.Text(), 10, 64); err == nil {
			times = append(times, time.Unix(0, ns))
		}
	}
	return times, nil
}
