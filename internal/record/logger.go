package record

import (
	"bytes"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger returns a logger that hands every line to w at once: nothing is sampled and nothing is
// buffered. Level is debug, info, warn or error, format json or console: the flags take no others.
func NewLogger(level, format string, w io.Writer) *zap.Logger {
	settings := zap.NewProductionEncoderConfig()
	settings.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoder := zapcore.NewJSONEncoder(settings)
	if format == "console" {
		encoder = zapcore.NewConsoleEncoder(settings)
	}
	least, _ := zapcore.ParseLevel(level) // info, were it another
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), least))
}

// formatJSON is the format of [NewLogger] that is not console.
const formatJSON = "json"

// Also returns a logger that hands its lines to another writer too, as JSON, from level info on.
func Also(logger *zap.Logger, w io.Writer) *zap.Logger {
	return logger.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, NewLogger(zapcore.InfoLevel.String(), formatJSON, w).Core())
	}))
}

const (
	// queueLines is how many lines wait for the log's reader, each of about 1 KiB; what does not fit is dropped.
	queueLines = 1024
	// flushWait is how long the end waits for the reader.
	flushWait = time.Second
)

// NewQueuedLogger is [NewLogger] for a writer that may block, such as a pipe that is not read while the
// container runtime hangs: a log line never waits. Lines are handed on by another goroutine, at once
// while there is a reader. Those that do not fit into the queue are counted, and the log says how many
// once it is read again. Its Sync waits a second for what is queued. (zapcore.BufferedWriteSyncer holds
// its lock while it writes, and blocks.)
func NewQueuedLogger(level, format string, w io.Writer) *zap.Logger {
	q, direct := &logQueue{to: w, work: make(chan func(), queueLines)}, NewLogger(level, format, w) // the queue may be full
	go func() {
		for do := range q.work { // for as long as the process lives
			do()
			if len(q.work) > 0 {
				continue // the lines before those that are missing
			}
			if lines := q.dropped.Swap(0); lines > 0 {
				direct.Warn("the log was not read for a while, and lines are missing", zap.Int64("lines", lines))
			}
		}
	}()
	return NewLogger(level, format, q)
}

// logQueue hands lines on to a writer.
type logQueue struct {
	to      io.Writer
	work    chan func()
	dropped atomic.Int64 // lines that did not fit
}

// Write queues a line, or drops it. It never waits for the reader.
func (q *logQueue) Write(line []byte) (int, error) {
	line = bytes.Clone(line) // it is zap's
	select {
	case q.work <- func() { _, _ = q.to.Write(line) }: // there is nowhere to say it
	default:
		q.dropped.Add(1)
	}
	return len(line), nil
}

// Sync waits until all that was queued before is handed on, or for a second.
func (q *logQueue) Sync() error {
	done := make(chan struct{})
	go func() { q.work <- func() { close(done) } }() // the queue may be full
	select {
	case <-done:
	case <-time.NewTimer(flushWait).C:
	}
	return nil
}
