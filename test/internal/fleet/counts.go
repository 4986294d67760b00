package fleet

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is the kind of an agent's request.
type kind uint8

const (
	anEviction kind = iota
	aPermit
	other
	kinds
)

// call is one request of an agent.
type call struct {
	kind kind
	at   time.Time
	took time.Duration
}

// counts records the requests of all agents.
type counts struct {
	mu    sync.Mutex
	calls []call
}

// wrap counts the requests of a transport.
func (c *counts) wrap(below http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		at := time.Now()
		answer, err := below.RoundTrip(r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, call{kind: kindOf(r), at: at, took: time.Since(at)})
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func kindOf(r *http.Request) kind {
	switch {
	case strings.HasSuffix(r.URL.Path, "/eviction"):
		return anEviction
	case strings.Contains(r.URL.Path, "/leases"):
		return aPermit
	default:
		return other
	}
}

// reset discards the counts.
func (c *counts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// of returns the calls of a kind; for kinds, all of them.
func (c *counts) of(wanted kind) []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wanted == kinds {
		return slices.Clone(c.calls)
	}
	var some []call
	for _, one := range c.calls {
		if one.kind == wanted {
			some = append(some, one)
		}
	}
	return some
}

// peak returns the most calls in one second since the begin.
func peak(calls []call, begin time.Time) int {
	bins, most := map[int64]int{}, 0
	for _, one := range calls {
		second := int64(one.at.Sub(begin) / time.Second)
		bins[second]++
		most = max(most, bins[second])
	}
	return most
}

func latencies(calls []call) []time.Duration {
	all := make([]time.Duration, 0, len(calls))
	for _, one := range calls {
		all = append(all, one.took)
	}
	return all
}
