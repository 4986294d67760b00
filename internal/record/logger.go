package record

import (
	"fmt"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger returns a logger that hands every line to w at once: nothing is sampled and nothing is
// buffered. Level is debug, info, warn or error, since at zap's other levels nothing would be logged; format is
// json or console. An error begins with "level" or "format".
func NewLogger(level, format string, w io.Writer) (*zap.Logger, error) {
	least, err := zapcore.ParseLevel(level)
	encoder, known := map[string]func(zapcore.EncoderConfig) zapcore.Encoder{
		"json": zapcore.NewJSONEncoder, "console": zapcore.NewConsoleEncoder,
	}[format]
	switch {
	case err != nil || least > zapcore.ErrorLevel || level != least.String():
		return nil, fmt.Errorf("level %q: write debug, info, warn or error", level)
	case !known:
		return nil, fmt.Errorf("format %q: write json or console", format)
	}
	settings := zap.NewProductionEncoderConfig()
	settings.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	return zap.New(zapcore.NewCore(encoder(settings), zapcore.Lock(zapcore.AddSync(w)), least)), nil
}

const (
	// queueBytes is how much of the log waits for its reader; what does not fit is dropped.
	queueBytes = 1 << 20
	// flushWait is how long the end waits for the reader.
	flushWait = time.Second
)

// NewQueuedLogger is [NewLogger] for a writer that may block, such as a pipe that is not read while the
// container runtime hangs: a log line never waits. Lines are handed on by another goroutine, at once
// while there is a reader. Those that do not fit into the queue are counted, and the log says how many
// once it is read again. Its Sync waits a second for what is queued. (zapcore.BufferedWriteSyncer holds
// its lock while it writes, and blocks.)
func NewQueuedLogger(level, format string, w io.Writer) (*zap.Logger, error) {
	q := &logQueue{to: w, wake: make(chan chan struct{}, 1)}
	logger, err := NewLogger(level, format, q)
	if err != nil {
		return nil, err
	}
	direct, err := NewLogger(level, format, w) // the queue may be full
	go q.run(func(lines int) {
		direct.Warn("the log was not read for a while, and lines are missing", zap.Int("lines", lines))
	})
	return logger, err
}

// logQueue is what has been logged and not handed on yet.
type logQueue struct {
	to   io.Writer
	wake chan chan struct{} // a channel in it is closed once all that is queued is handed on

	mu      sync.Mutex
	queued  []byte // whole lines
	dropped int    // lines that did not fit behind these
}

// Write queues a line, or drops it. It never waits for the reader.
func (q *logQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queued)+len(line) > queueBytes {
		q.dropped++
		return len(line), nil
	}
	q.queued = append(q.queued, line...)
	select {
	case q.wake <- nil:
	default:
	}
	return len(line), nil
}

// Sync waits until all that was queued before is handed on, or for a second.
func (q *logQueue) Sync() error {
	late, done := time.NewTimer(flushWait).C, make(chan struct{})
	select {
	case q.wake <- done:
	case <-late:
		return nil
	}
	select {
	case <-done:
	case <-late:
	}
	return nil
}

// run hands on what is queued, for as long as the process lives.
func (q *logQueue) run(tellDropped func(lines int)) {
	for done := range q.wake {
		if dropped := q.handOn(); dropped > 0 {
			tellDropped(dropped)
		}
		if done != nil {
			close(done)
		}
	}
}

// handOn writes what is queued, and returns how many lines were dropped after it.
func (q *logQueue) handOn() (dropped int) {
	q.mu.Lock()
	text := q.queued
	q.queued, dropped, q.dropped = nil, q.dropped, 0
	q.mu.Unlock()
	if len(text) > 0 { // not after a Sync that has handed it on
		_, _ = q.to.Write(text) // there is nowhere to say it
	}
	return dropped
}
