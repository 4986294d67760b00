package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Frames come at the interval; one that fails is shown below the last good one, and the next
// is still drawn; the end of the context is exit code 0.
func TestWatchGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		var out bytes.Buffer
		var at []time.Duration
		frame := func(ctx context.Context) (string, error) {
			at = append(at, time.Since(start))
			switch len(at) {
			case 2:
				return "", errors.New("listing the pods: \x1b[31mno answer")
			case 4:
				cancel() // ^C during a request to the API server
				<-ctx.Done()
				return "", ctx.Err()
			}
			return fmt.Sprintf("ranking %d\n", len(at)), nil
		}
		if err := watchRanking(ctx, &out, 2*time.Second, frame); err != nil {
			t.Errorf("%v, want no fault at the end", err)
		}
		if want := "[0s 2s 4s 6s]"; fmt.Sprint(at) != want {
			t.Errorf("frames at %v, want %s", at, want)
		}
		first, rest, _ := strings.Cut(out.String(), "ranking 1\n\n")
		if first != "" || !strings.HasPrefix(rest, "ranking 1\n\nThis is the last ranking that could be made. At ") ||
			!strings.Contains(rest, `listing the pods: \x1b[31mno answer`) || !strings.HasSuffix(rest, "ranking 3\n\n") {
			t.Errorf("shows:\n%s", out.String())
		}
	})
}

// ^C between two frames ends it at once.
func TestWatchEndsBetweenFrames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start, frames := time.Now(), 0
		err := watchRanking(ctx, &bytes.Buffer{}, 2*time.Second, func(context.Context) (string, error) {
			frames++
			return "ranking\n", nil
		})
		if took := time.Since(start); err != nil || took != 3*time.Second || frames != 2 {
			t.Errorf("%v after %v and %d frames; want no fault, 3 s and 2", err, took, frames)
		}
	})
}

// A first frame that fails is an error.
func TestWatchThatNeverSucceeds(t *testing.T) {
	t.Parallel()
	fault := errors.New("no such node")
	var out bytes.Buffer
	err := watchRanking(t.Context(), &out, time.Second, func(context.Context) (string, error) { return "", fault })
	if !errors.Is(err, fault) || out.Len() > 0 {
		t.Errorf("%v and %q, want the fault and nothing", err, out.String())
	}
}

// full is a disk or a pipe that accepts no more.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWatchThatCannotWrite(t *testing.T) {
	t.Parallel()
	err := watchRanking(t.Context(), full{}, time.Second, func(context.Context) (string, error) { return "x", nil })
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%v, want the fault of the writer", err)
	}
}
