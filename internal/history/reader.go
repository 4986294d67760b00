package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/evictd/evictd/internal/status"
)

// magic begins each frame (RFC 8878, section 3.1.1).
const magic = "\x28\xb5\x2f\xfd"

// mostDecoded bounds a frame that is read, in bytes: those that are written have less than a tenth.
const mostDecoded = 32 << 20

// Record is one that is read.
type Record struct {
	files []file
	// Damaged says what could not be read, a clause each: what is whole was read all the same.
	Damaged []string
	whole   int // frames
}

// Open opens a record: the directory that evictd writes to, or a file that was exported. An error says what to do.
func Open(path string) (*Record, error) {
	files, err := open(path)
	return &Record{files: files}, err
}

// Exported reports whether it is a file that was exported.
func (r *Record) Exported() bool { return len(r.files) == 1 && r.files[0].from.IsZero() }

// Each calls f with each line of the record that is not older than since, in their order, and with the lines before
// it in its frame. It ends with the first error of f.
func (r *Record) Each(since time.Time, f func(*Line) error) error {
	err := r.frames(since, func(_ []byte, lines []Line) error {
		for i := range lines {
			if l := &lines[i]; l.Version > Version {
				return fmt.Errorf("the record has version %d, and this evictd reads version %d; read it with the evictd that wrote it", l.Version, Version)
			}
			if err := f(&lines[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && r.whole == 0 && len(r.Damaged) > 0 {
		err = errors.New("nothing of it can be read: " + r.Damaged[0] + "; name a directory that evictd run --record writes, or a file of evictd record export")
	}
	return err
}

// frames calls f with each whole frame, as it is and its lines, that has one which is not older than since.
func (r *Record) frames(since time.Time, f func(raw []byte, lines []Line) error) error {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(mostDecoded))
	if err != nil {
		return err
	}
	defer decoder.Close()
	r.Damaged, r.whole = nil, 0
	for i, file := range r.files {
		if i+1 < len(r.files) && r.files[i+1].from.Add(frameTime).Before(since) { // a frame is of the hour in which it began
			continue
		}
		data, err := os.ReadFile(file.path)
		if err != nil {
			return fmt.Errorf("reading the record: %w", err)
		}
		for at := 0; at < len(data); {
			end := at + length(data[at:])
			lines, why := decode(decoder, data[at:end])
			if why == nil {
				r.whole++
			}
			switch {
			case why != nil: // up to where the next frame may begin
				if end = len(data); bytes.Contains(data[at+1:], []byte(magic)) {
					end = at + 1 + bytes.Index(data[at+1:], []byte(magic))
				}
				r.Damaged = append(r.Damaged, fmt.Sprintf("%s has %d damaged bytes at %d: %v", file.path, end-at, at, why))
			case !lines[len(lines)-1].Time.Before(since):
				if err := f(data[at:end], lines); err != nil {
					return err
				}
			}
			at = end
		}
	}
	return nil
}

// length returns how many bytes the frame has that begins the data, by the sizes of its blocks (RFC 8878, section
// 3.1.1); all where it has no end.
func length(data []byte) int {
	var header zstd.Header
	if header.Decode(data) != nil {
		return len(data)
	}
	const last, repeated = 1, 1
	for at := header.HeaderSize; at+3 <= len(data); {
		block := int(data[at]) | int(data[at+1])<<8 | int(data[at+2])<<16
		if at += 3; block>>1&3 == repeated {
			at++ // of one byte
		} else {
			at += block >> 3
		}
		if block&last != 0 {
			const checksum = 4
			return min(at+checksum, len(data))
		}
	}
	return len(data)
}

// decode reads the lines of a frame.
func decode(decoder *zstd.Decoder, raw []byte) (lines []Line, err error) {
	text, err := decoder.DecodeAll(raw, nil)
	if err != nil {
		return nil, err
	}
	for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
		var l Line
		if err := decoder.Decode(&l); err != nil {
			if errors.Is(err, io.EOF) && len(lines) > 0 {
				return lines, nil
			}
			return nil, err
		}
		lines = append(lines, l)
	}
}

// errFound ends a search.
var errFound = errors.New("found")

// At returns what the node was like at a time: the document of the last line before it, which is a minute old at most
// where evictd ran. An error says that there is none.
func (r *Record) At(at time.Time) (*status.Document, error) {
	var s State
	err := r.Each(at.Add(-frameTime), func(l *Line) error {
		if l.Time.After(at) {
			return errFound
		}
		return s.Take(l)
	})
	switch {
	case err != nil && !errors.Is(err, errFound):
		return nil, err
	case s.Node == nil || at.Sub(s.Node.Time) > 2*time.Minute:
		return nil, fmt.Errorf("the record has nothing of %s: evictd did not run then, its lines went with the oldest, or they are not written yet, which may take ten minutes",
			at.UTC().Format(time.RFC3339))
	}
	return s.Node, nil
}

// Export writes the whole frames that are not older than since, as they are. An error says that there is none.
func (r *Record) Export(w io.Writer, since time.Time) error {
	some := false
	err := r.frames(since, func(raw []byte, _ []Line) error {
		some = true
		_, err := w.Write(raw)
		return err
	})
	if err == nil && !some {
		err = errors.New("the record has nothing of that time; name an earlier --since")
	}
	return err
}
