package eventually

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
)

func TestPollGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Poll(t.Context(), func(context.Context) bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the end of the limit", err)
		}
	})
}

// failing records how a test that gives up fails.
type failing struct {
	testing.TB

	context func() context.Context
	text    string
}

func (f *failing) Context() context.Context { return f.context() }
func (*failing) Helper()                    {}
func (f *failing) Fatalf(format string, arguments ...any) {
	f.text = format
	for _, a := range arguments {
		if s, is := a.(string); is {
			f.text += s
		}
	}
	runtime.Goexit()
}

func TestAWaitThatFailsPrintsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{context: t.Context}
		done := make(chan struct{})
		go func() {
			defer close(done)
			Until(f, "never", func(context.Context) bool { return false }, func() string { return "last decision: hold" })
		}()
		<-done
		if want := "last decision: hold"; !strings.Contains(f.text, want) {
			t.Errorf("the failure %q lacks %q", f.text, want)
		}
	})
}

// counter is an evictd whose counter is this; an error where it is negative.
type counter []float64

func (c *counter) Ticks(context.Context) (float64, error) {
	next := (*c)[0]
	*c = (*c)[1:]
	if next < 0 {
		return 0, errors.New("no answer")
	}
	return next, nil
}

func TestTicksAreCounted(t *testing.T) {
	for name, c := range map[string]counter{
		"in order":           {10, 11, 12, 13},
		"unknown for a time": {-1, 10, -1, 13},
		"a restart":          {10, 12, 1, 2, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			Ticks(t, &c, 2)
			if len(c) != 0 {
				t.Errorf("%s: %d readings early", name, len(c))
			}
		})
	}
}
