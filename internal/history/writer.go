package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/status"
)

const (
	// queued is how many lines of the log wait at most, and queuedDocuments how many documents, each of up to 70 KiB
	// on a node of 110 pods.
	queued, queuedDocuments = 512, 64
	// takeEvery is how often what waits is taken, together, as a wake-up costs more than a line; after a line of the log it
	// is soon.
	takeEvery, soon = 10 * time.Second, time.Second
	// frameTime ends a frame, and shortFrame while a threshold is met, or a line of the log within a second: what a
	// process that is killed loses at most.
	frameTime, shortFrame = 10 * time.Minute, time.Minute
	// mostKept is how many frames wait in memory while the disk is short: those of ten minutes, and less than a MiB.
	mostKept = 10
	// window is how far back a frame refers; the library's own default costs 18 MiB of heap.
	window = 128 << 10
)

// Options are what a [Writer] needs.
type Options struct {
	// MaxSize is how much all files have at most, in bytes; the oldest go.
	MaxSize int64
	// Complete adds to a document what the loop does not know: the version, the node's name and the configuration.
	Complete func(*status.Document)
	// Now is the clock, for lines of the log.
	Now func() time.Time
	// Failed receives the error of each write. It must not wait.
	Failed func(error)
}

// Writer writes a record. Document and Write may be called on any goroutine, and wait for nothing.
type Writer struct {
	options Options
	dir     directory
	device  uint64 // of its filesystem
	work    chan entry
	logged  chan struct{} // holds one value once a line of the log waits
	dropped atomic.Int64

	// Of the goroutine of Start alone:
	node    *status.Document      // the last with pods; nil before
	pods    map[string]status.Pod // as the lines so far say them, by namespace/name
	encoder *zstd.Encoder
	text    bytes.Buffer // of the frame that grows
	open    frame
	hurry   bool    // it has a line of the log
	kept    []frame // those that wait for the disk
	short   bool    // of that disk
	met     bool    // a threshold is
}

// frame is one that is written.
type frame struct {
	text  []byte
	lines int
	since time.Time
}

// entry is a document, or a line of the log at a time.
type entry struct {
	at       time.Time
	document *status.Document
	text     []byte
}

// NewWriter returns a writer for a directory, which it makes where it is missing.
func NewWriter(dir string, options Options) (*Writer, error) {
	err := os.MkdirAll(dir, 0o700) //nolint:gosec // the directory is an argument of the administrator's
	var info unix.Stat_t
	if err == nil {
		err = unix.Stat(dir, &info)
	}
	if err != nil {
		return nil, fmt.Errorf("making the directory of the record: %w", err)
	}
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(window),
		zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(1))
	return &Writer{
		options: options, dir: directory{dir, options.MaxSize}, device: info.Dev,
		work: make(chan entry, queued), logged: make(chan struct{}, 1), encoder: encoder,
	}, err
}

// Document takes what the loop knows now. One without pods has the signals alone. It is not changed any more.
func (w *Writer) Document(d *status.Document) {
	if len(w.work) > queuedDocuments {
		w.dropped.Add(1)
		return
	}
	w.put(entry{at: d.Time, document: d})
}

// Write takes a line of the log. It is an [io.Writer] for a logger, and never fails.
func (w *Writer) Write(line []byte) (int, error) {
	w.put(entry{at: w.options.Now().UTC(), text: bytes.Clone(bytes.TrimSpace(line))}) // it is the logger's
	select {
	case w.logged <- struct{}{}:
	default:
	}
	return len(line), nil
}

func (w *Writer) put(e entry) {
	select {
	case w.work <- e:
	default:
		w.dropped.Add(1)
	}
}

// Start writes until the end that it returns is called, which waits for what is left, for a second at most.
func (w *Writer) Start() (end func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.write(stop)
	}()
	return func() {
		close(stop)
		select {
		case <-ended:
		case <-time.NewTimer(time.Second).C:
		}
	}
}

// write takes what waits from time to time, and writes it.
func (w *Writer) write(stop <-chan struct{}) {
	tick := time.NewTicker(takeEvery)
	defer tick.Stop()
	var after <-chan time.Time // a line of the log
	for ended := false; !ended; {
		now := time.Time{}
		select {
		case <-w.logged:
			if after == nil {
				after = time.NewTimer(soon).C
			}
			continue
		case now = <-after:
			after = nil
		case now = <-tick.C:
		case <-stop:
			ended = true
		}
		for len(w.work) > 0 {
			w.take(<-w.work)
		}
		if w.short = w.short && !ended; ended || w.due(now) { // then there is no later
			w.endFrame()
		}
		w.flush()
	}
}

// take adds a line to the frame, and begins one where there is none. Before the first document with pods, only what the
// log has can be said.
func (w *Writer) take(e entry) {
	if w.open.lines == 0 {
		w.text.Reset()
		w.encoder.Reset(&w.text)
		w.open.since, w.hurry = e.at, false
		w.addNode(e.at)
	}
	if lines := int(w.dropped.Swap(0)); lines > 0 {
		w.add(&Line{Time: e.at, Lost: lines})
		w.open.lines += lines // where it is dropped too
	}
	d, known := e.document, w.node != nil
	if d == nil {
		w.add(&Line{Time: e.at, Log: e.text})
		w.hurry = true
		return
	}
	if d.Pods != nil {
		w.node = d
	}
	if known {
		l := &Line{Time: e.at}
		var said status.Document
		said, l.Gone, w.pods = change(w.pods, d)
		l.Change = w.marshal(&said)
		w.add(l)
	} else {
		w.addNode(e.at)
	}
	w.met, w.short = w.states(d)
}

// states reports whether a threshold is met, and whether one of the record's own disk is.
func (w *Writer) states(d *status.Document) (met, short bool) {
	for i := range d.Signals {
		s := &d.Signals[i]
		is := slices.ContainsFunc(s.Thresholds, func(t status.Threshold) bool { return !t.Since.IsZero() })
		met, short = met || is, short || is && s.Device != 0 && s.Device == w.device
	}
	return met, short
}

// addNode adds the whole document, where there is one.
func (w *Writer) addNode(at time.Time) {
	if w.node == nil {
		return
	}
	document := *w.node
	w.options.Complete(&document)
	_, _, w.pods = change(nil, &document)
	w.add(&Line{Time: at, Version: Version, Node: w.marshal(&document)})
}

func (w *Writer) marshal(d *status.Document) []byte {
	text, err := json.Marshal(d) //nolint:musttag // of a request in doubt, which is not in it
	if err != nil {
		w.options.Failed(err)
	}
	return text
}

func (w *Writer) add(l *Line) {
	text, err := json.Marshal(l)
	if err == nil {
		_, err = w.encoder.Write(append(text, '\n'))
	}
	if err != nil {
		w.options.Failed(err)
		return
	}
	w.open.lines++
}

// due reports whether the frame should end.
func (w *Writer) due(now time.Time) bool {
	age := now.Sub(w.open.since)
	return w.open.lines > 0 && (w.hurry || age >= frameTime || w.met && age >= shortFrame)
}

// endFrame ends the frame, which waits for the disk then.
func (w *Writer) endFrame() {
	if w.open.lines == 0 {
		return
	}
	if err := w.encoder.Close(); err != nil {
		w.options.Failed(err)
	}
	w.open.text = bytes.Clone(w.text.Bytes())
	if w.kept, w.open = append(w.kept, w.open), (frame{}); len(w.kept) > mostKept {
		w.dropped.Add(int64(w.kept[0].lines))
		w.kept = w.kept[1:]
	}
}

// flush writes what waits for the disk, unless that is short.
func (w *Writer) flush() {
	for len(w.kept) > 0 && !w.short {
		if err := w.dir.append(w.kept[0].since, w.kept[0].text); err != nil {
			w.options.Failed(err)
			return
		}
		w.kept = w.kept[1:]
	}
}
