package fleet

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// RequestKind is the kind of a calm agent's request.
type RequestKind string

// The kinds of requests. A watch that streams the whole list first is a WatchList; one that goes on
// from a version is WatchResumed.
const (
	WatchList    RequestKind = "watch-list"
	WatchResumed RequestKind = "watch"
	List         RequestKind = "list"
	StopWatch    RequestKind = "stop-watch" // of the ConfigMap that stops evictd
	Other        RequestKind = "other"
)

// Request is one request of an agent.
type Request struct {
	// Agent is the number of its node.
	Agent int
	Kind  RequestKind
	// At is when it was sent, Took how long the response's header took.
	At   time.Time
	Took time.Duration
	// Code is the status code; 0 is no response.
	Code int
}

// Succeeded reports whether the API server did what was asked.
func (r *Request) Succeeded() bool {
	return r.Code >= http.StatusOK && r.Code < http.StatusMultipleChoices
}

// Requests is the log of all agents' requests. It is safe for concurrent use.
type Requests struct {
	mu    sync.Mutex
	all   []Request
	last  time.Time         // of the answers
	conns map[net.Conn]bool // the agents', also those that have ended
}

// Connections returns those over which an agent has sent anything.
func (r *Requests) Connections() []net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.conns))
}

// connected is called when a request has got its connection.
func (r *Requests) connected(got httptrace.GotConnInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns[got.Conn] = true
}

// Since returns the requests that were sent since a moment.
func (r *Requests) Since(moment time.Time) []Request {
	return r.filter(func(one *Request) bool { return !one.At.Before(moment) })
}

// Of returns those of one agent.
func (r *Requests) Of(agent int, since time.Time) []Request {
	return r.filter(func(one *Request) bool { return one.Agent == agent && !one.At.Before(since) })
}

func (r *Requests) filter(wanted func(*Request) bool) []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var some []Request
	for i := range r.all {
		if wanted(&r.all[i]) {
			some = append(some, r.all[i])
		}
	}
	return some
}

// answered returns when the API server answered last; zero before the first answer.
func (r *Requests) answered() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

func (r *Requests) add(one Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
	if one.Code != 0 {
		r.last = one.At.Add(one.Took)
	}
}

// link is an agent's way to the API server, which logs what is sent.
type link struct {
	requests *Requests
	agent    int
	mu       sync.Mutex
	below    http.RoundTripper // the same for all clients of the agent
}

func (l *link) wrap(below http.RoundTripper) http.RoundTripper {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.below = below
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		at := time.Now()
		trace := &httptrace.ClientTrace{GotConn: l.requests.connected}
		answer, err := below.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		one := Request{Agent: l.agent, Kind: requestKind(r), At: at, Took: time.Since(at)}
		if err == nil {
			one.Code = answer.StatusCode
		}
		l.requests.add(one)
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends a request.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// close closes the agent's connection.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	utilnet.CloseIdleConnectionsFor(l.below)
}

func requestKind(r *http.Request) RequestKind {
	query := r.URL.Query()
	switch {
	case strings.HasSuffix(r.URL.Path, "/configmaps"):
		return StopWatch
	case query.Get("sendInitialEvents") == "true":
		return WatchList
	case query.Has("watch"):
		return WatchResumed
	case strings.HasSuffix(r.URL.Path, "/pods"):
		return List
	default:
		return Other
	}
}
