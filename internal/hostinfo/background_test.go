package hostinfo

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/internal/decide"
)

// TestProcessesAreReadInTheBackground: no call waits, an answer is read again when it is due, and none is left
// of a failed reading. One that hangs is not awaited for long, and no other is begun beside it.
func TestProcessesAreReadInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, faults atomic.Int64 // one reading ends after the last look
		fault, takes := error(nil), timeout
		r := New("", func(error) { faults.Add(1) })
		r.look = func(context.Context) ([]decide.Process, error) {
			time.Sleep(takes - time.Millisecond)
			read := reads.Add(1)
			if fault != nil {
				return nil, fault
			}
			return []decide.Process{{RSS: read}}, nil
		}
		wants := func(name string, reading int64, pending bool) {
			t.Helper()
			before := time.Now()
			got, waits := r.Processes(before)
			if read := append(got, decide.Process{})[0].RSS; read != reading || waits != pending || time.Now() != before {
				t.Errorf("%s: %d, pending %v, after %v; want %d, %v", name, read, waits, time.Since(before), reading, pending)
			}
			synctest.Wait()
		}
		wants("the first", 0, true)
		time.Sleep(takes / 2)
		wants("while it is read", 0, true)
		time.Sleep(takes)
		wants("the answer", 1, false)
		time.Sleep(processesEvery - 2*takes)
		wants("before the next is due", 1, false)
		time.Sleep(takes)
		wants("the next is due", 0, true)
		time.Sleep(takes)
		wants("the next", 2, false)
		fault = errors.New("unread")
		time.Sleep(processesEvery)
		wants("it fails", 0, true)
		time.Sleep(takes)
		wants("no answer", 0, false)
		takes = time.Hour
		time.Sleep(processesEvery)
		wants("it hangs", 0, true)
		time.Sleep(2 * processesEvery)
		wants("it hangs for long", 0, false)
		if faults.Load() != 1 || reads.Load() != 3 {
			t.Errorf("%d faults, %d readings; want 1, 3", faults.Load(), reads.Load())
		}
		time.Sleep(takes) // it ends
	})
}
