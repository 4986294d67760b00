package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// longestPage bounds a page of an agent, in bytes.
const longestPage = 16 << 20

// ask asks one agent over one forwarded connection.
func (c *cluster) ask(ctx context.Context, a *agent) (*answer, error) {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.forward(ctx, a) },
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	got := &answer{node: a.node}
	for _, page := range []struct {
		path string
		read func(io.Reader) error
	}{
		{"/metrics", func(page io.Reader) (err error) { got.metrics, err = readMetrics(page); return err }},
		{"/debug/decisions", func(page io.Reader) (err error) { got.decisions, err = readDecisions(page); return err }},
	} {
		now, err := fetch(ctx, client, page.path, page.read)
		if err != nil {
			return nil, err
		}
		got.now = now
	}
	return got, nil
}

// fetch reads a page and returns the agent's time.
func fetch(ctx context.Context, client *http.Client, path string, read func(io.Reader) error) (time.Time, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://evictd"+path, http.NoBody)
	if err != nil {
		return time.Time{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return time.Time{}, withoutURL(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		return time.Time{}, fmt.Errorf("it answers %s with %s", path, response.Status)
	}
	if err = read(io.LimitReader(response.Body, longestPage)); err != nil {
		return time.Time{}, err
	}
	if _, err = io.Copy(io.Discard, response.Body); err != nil { // so that the connection serves the next page
		return time.Time{}, fmt.Errorf("reading %s: %w", path, err)
	}
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		return time.Time{}, nil // the answer holds without its time
	}
	return now, nil
}

// unanswered says in one sentence why an agent did not answer. Timeout is how long it had.
func (c *cluster) unanswered(a *agent, err error, timeout time.Duration) error {
	doing := fmt.Sprintf("node %s: no answer from pod %s", a.node, a.name())
	unreached := unreachedError("")
	switch {
	case errors.As(err, &unreached):
		return fmt.Errorf("%s: its kubelet cannot connect to its port %d: %w", doing, a.port, unreached)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s within %s", doing, timeout)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s before the interrupt", doing)
	default:
		return c.explain(doing, err, right{"create", "pods/portforward", a.namespace})
	}
}
