package status

import (
	"bytes"
	"context"
	"net/http"
)

// Path is where an agent serves its document.
const Path = "/debug/status"

// Handler serves the document that a function makes: 503 where the agent has none. With ?disk=true the pods'
// disk use is measured for it, unless that was done a moment ago.
func Handler(document func(ctx context.Context, disk bool) (*Document, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		d, err := document(r.Context(), r.FormValue("disk") == "true")
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
