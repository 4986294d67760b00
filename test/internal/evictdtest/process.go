package evictdtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/evictd/evictd/test/internal/eventually"
	"github.com/evictd/evictd/test/internal/pages"
)

// Process is a running evictd.
type Process struct {
	Address string // of its pages
	Log     *Log
	command *exec.Cmd
	ended   chan struct{} // closed at its end
	fault   error         // that it ended with
	// client has one connection, which is open before evictd may have no more file descriptors.
	client *http.Client
}

// Run starts a command that runs evictd, which serves its pages at the address.
func Run(command *exec.Cmd, address string) (*Process, error) {
	p := &Process{Address: address, Log: &Log{}, command: command, ended: make(chan struct{})}
	p.client = &http.Client{Timeout: eventually.Limit(), Transport: &http.Transport{MaxConnsPerHost: 1}}
	command.Stderr = p.Log
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting evictd: %w", err)
	}
	go func() {
		p.fault = command.Wait()
		p.client.CloseIdleConnections()
		close(p.ended)
	}()
	return p, nil
}

// PID is its number.
func (p *Process) PID() int { return p.command.Process.Pid }

// IsOver reports whether it has ended, and its exit code.
func (p *Process) IsOver() (code int, over bool) {
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode(), true
	default:
		return 0, false
	}
}

// Kill ends evictd as kill -9 does.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.ended
}

// End ends evictd as the kubelet does, and returns what it ended with.
func (p *Process) End() error {
	_ = p.command.Process.Signal(syscall.SIGTERM) // one that has ended is reported below
	<-p.ended
	if p.fault != nil {
		return fmt.Errorf("evictd ended with a fault: %w: %s", p.fault, p.Log)
	}
	return nil
}

// Get returns a page's status and text; 0 when there is no response.
func (p *Process) Get(ctx context.Context, path string) (int, string) {
	text, status, err := pages.Get(ctx, p.client, "http://"+p.Address+path)
	if err != nil {
		return 0, err.Error()
	}
	return status, text
}

// Metrics returns evictd's metrics; none when there is no response.
func (p *Process) Metrics(ctx context.Context) pages.Metrics {
	_, page := p.Get(ctx, "/metrics")
	m, err := pages.ParseMetrics(page)
	if err != nil {
		return nil
	}
	return m
}

// Metric returns one of [Process.Metrics], as [pages.Metrics.Sum] does.
func (p *Process) Metric(ctx context.Context, name string, labels ...string) (float64, bool) {
	return p.Metrics(ctx).Sum(name, labels...)
}

// Ticks returns how often evictd has decided.
func (p *Process) Ticks(ctx context.Context) (float64, error) { return p.Metrics(ctx).Ticks() }

// Log is a log that grows while it is read.
type Log struct {
	mu      sync.Mutex
	content bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.Write(p)
}

// String returns all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.content.String()
}

// Has reports whether the text is in the log.
func (l *Log) Has(text string) bool { return strings.Contains(l.String(), text) }
