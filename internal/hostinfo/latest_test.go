package hostinfo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLatest: of does not wait, an answer is read again when it is due, and no answer is left of a
// failed reading or of another incident.
func TestLatest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const takes, every = 2 * time.Second, 30 * time.Second
		reads, faults, fault := 0, 0, error(nil)
		l := Latest[int]{Every: every, Failed: func(error) { faults++ }, Read: func(context.Context) (int, error) {
			time.Sleep(takes - time.Millisecond)
			reads++
			return reads, fault
		}}
		wants := func(name, incident string, value int, pending bool) {
			t.Helper()
			before := time.Now()
			if got, waits := l.Of(incident, before); got != value || waits != pending || time.Now() != before {
				t.Errorf("%s: %d, pending %v, after %v; want %d, %v", name, got, waits, time.Since(before), value, pending)
			}
			synctest.Wait()
		}
		wants("the first", "a", 0, true)
		time.Sleep(takes / 2)
		wants("while it is read", "a", 0, true)
		wants("another incident meanwhile", "b", 0, true)
		time.Sleep(takes)
		wants("the answer", "a", 1, false)
		time.Sleep(every - 2*takes)
		wants("before the next is due", "a", 1, false)
		time.Sleep(takes)
		wants("the next is due", "a", 1, true)
		time.Sleep(takes)
		wants("the next", "a", 2, false)
		wants("another incident", "b", 0, true)
		time.Sleep(takes)
		wants("its answer", "b", 3, false)
		fault = errors.New("unread")
		time.Sleep(every)
		wants("it fails", "b", 3, true)
		time.Sleep(takes)
		wants("no answer", "b", 0, false)
		if faults != 1 || reads != 4 {
			t.Errorf("%d faults, %d readings; want 1, 4", faults, reads)
		}
	})
}
