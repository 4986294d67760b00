package evictdtest

import (
	"bytes"
	"io"
	"regexp"
	"sync/atomic"
	"time"
)

// timestamps are the times in the API server's JSON.
var timestamps = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// skewed adds to every time in a body, which it forwards line by line: each event of a watch
// is one line.
type skewed struct {
	io.ReadCloser

	by     *atomic.Int64
	source []byte // read but not processed
	ready  []byte // processed but not forwarded
	err    error
}

func (s *skewed) Read(into []byte) (int, error) {
	for len(s.ready) == 0 && s.err == nil {
		chunk := make([]byte, 32<<10)
		n, err := s.ReadCloser.Read(chunk)
		s.source, s.err = append(s.source, chunk[:n]...), err
		end := bytes.LastIndexByte(s.source, '\n') + 1
		if err != nil {
			end = len(s.source)
		}
		s.ready = timestamps.ReplaceAllFunc(s.source[:end], s.later)
		s.source = s.source[end:]
	}
	n := copy(into, s.ready)
	s.ready = s.ready[n:]
	if n == 0 {
		return 0, s.err
	}
	return n, nil
}

func (s *skewed) later(text []byte) []byte {
	at, err := time.Parse(`"`+time.RFC3339+`"`, string(text))
	if err != nil {
		return text
	}
	return []byte(at.Add(time.Duration(s.by.Load())).Format(`"` + time.RFC3339 + `"`))
}
