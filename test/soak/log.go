package main

import (
	"bufio"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/node"
)

// kept is how many of the last lines are kept, for a failure.
const kept = 40

// logbook follows evictd's log across its restarts.
type logbook struct {
	mu   sync.Mutex // guards all below
	open []string   // the IDs of incidents that have begun and not ended
	last []string
}

// followLog follows the log until the context ends.
func followLog(ctx context.Context, n *node.Node) *logbook {
	l := &logbook{}
	go func() {
		since := time.Now()
		for ctx.Err() == nil {
			l.follow(ctx, n, &since)
			_ = measure.Sleep(ctx, time.Second) // the container is between two processes
		}
	}()
	return l
}

// follow reads one process's log to its end. Lines from before since are those of the last time.
func (l *logbook) follow(ctx context.Context, n *node.Node, since *time.Time) {
	pod, err := n.EvictdPod(ctx)
	if err != nil {
		return
	}
	stream, err := n.Client.CoreV1().Pods(node.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true, Timestamps: true}).Stream(ctx)
	if err != nil {
		return
	}
	defer stream.Close() //nolint:errcheck // only read
	for lines := bufio.NewScanner(stream); lines.Scan(); {
		stamp, line, _ := strings.Cut(lines.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil || !at.After(*since) {
			continue
		}
		*since = at
		l.observe(line)
	}
}

// observe takes one line.
func (l *logbook) observe(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, line)
	if len(l.last) > kept {
		l.last = l.last[1:]
	}
	var read struct {
		Message  string `json:"msg"`
		Incident string `json:"incident"`
	}
	if json.Unmarshal([]byte(line), &read) != nil {
		return
	}
	switch {
	case read.Message == "incident began" && !slices.Contains(l.open, read.Incident):
		l.open = append(l.open, read.Incident)
	case read.Message == "incident ended":
		l.open = slices.DeleteFunc(l.open, func(id string) bool { return id == read.Incident })
	}
}

// openIncidents returns the incidents that have begun and not ended.
func (l *logbook) openIncidents() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.open)
}

// tail returns the last lines.
func (l *logbook) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}
