package main

import (
	"fmt"
	"net/http"

	"github.com/evictd/evictd/test/internal/audit"
)

// count reads a log to its end. An accepted eviction of the same pod twice is one: a request without
// an answer is sent again.
func (st *stage) count(log *audit.Log, apps []string) (count int, wrong []string, err error) {
	events, err := log.Next()
	if err != nil {
		return 0, nil, fmt.Errorf("counting the evictions: %w", err)
	}
	seen := map[string]bool{}
	for i := range events {
		e := &events[i]
		name := e.ObjectRef.Namespace + "/" + e.ObjectRef.Name
		if !e.Evicts() || e.Response.Code != http.StatusCreated || seen[name] {
			continue
		}
		seen[name] = true
		count++
		if e.ObjectRef.Namespace != st.namespace || appOf(e.ObjectRef.Name, apps) == "" {
			wrong = append(wrong, name)
		}
	}
	return count, wrong, nil
}
