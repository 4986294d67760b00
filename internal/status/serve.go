package status

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/pkg/pressure"
)

// Path is where an agent serves its document.
const Path = "/debug/status"

// Query is what a document is asked for.
type Query struct {
	// Signal is what to rank for; "" leaves it to the agent: what it is short of, else memory.available.
	Signal string
	// Disk has the pods' disk use measured, unless that was done a moment ago.
	Disk bool
}

// String is the query of a URL.
func (q *Query) String() string {
	return url.Values{"signal": {q.Signal}, "disk": {strconv.FormatBool(q.Disk)}}.Encode()
}

// Handler serves the document that a function makes: 400 for a query that has no answer, 503 where the
// agent has none.
func Handler(document func(ctx context.Context, q *Query) (*Document, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.URL.Query()
		q := &Query{Signal: values.Get("signal"), Disk: values.Get("disk") == "true"}
		if _, err := SignalOf(q.Signal); q.Signal != "" && err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var text bytes.Buffer
		d, err := document(r.Context(), q)
		if err == nil {
			err = d.Write(&text)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(text.Bytes()) // the reader has disconnected
	})
}

// Rankable returns the signals that pods can be ranked for.
func Rankable() []pressure.Signal {
	return slices.DeleteFunc(pressure.Signals(), func(s pressure.Signal) bool { return s == pressure.MemoryStall })
}

// SignalOf returns the signal of that name that pods can be ranked for.
func SignalOf(name string) (pressure.Signal, error) {
	why := "no such signal"
	if name == pressure.MemoryStall.String() {
		why = "no pod uses stall time; in a stall pods go in the order of memory.available"
	}
	var names []string
	for _, signal := range Rankable() {
		if signal.String() == name {
			return signal, nil
		}
		names = append(names, signal.String())
	}
	return 0, fmt.Errorf("%q: %s; name one of %s", name, why, strings.Join(names, ", "))
}

// Short returns the first signal under pressure that pods can be ranked for; memory.available where there
// is none.
func (d *Document) Short() pressure.Signal {
	for i := range d.Signals {
		if s := &d.Signals[i]; s.held() != "" && s.Name != pressure.MemoryStall {
			return s.Name
		}
	}
	return pressure.MemoryAvailable
}
