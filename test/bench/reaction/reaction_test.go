package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/test/internal/audit"
)

// falling falls by that many bytes a millisecond from the distance above a line at zero.
func falling(distance, each int64, count int) []moment {
	begin := time.Unix(1_700_000_000, 0)
	var moments []moment
	for i := range count {
		left := distance - int64(i)*each
		moments = append(moments, moment{before: begin.Add(time.Duration(i) * time.Millisecond), available: left, kernel: left})
	}
	return moments
}

func TestCrossingIsTheLastReadingAbove(t *testing.T) {
	const distance = 1000 * megabyte
	moments := falling(distance, megabyte, 1100)
	c, err := crossing(moments, 0, distance)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.crossed.Sub(moments[0].before); got != 1000*time.Millisecond {
		t.Errorf("crossed after %v, want 1 s: at exactly the threshold it is not met", got)
	}
	if got := c.measured / megabyte; got < 990 || got > 1010 {
		t.Errorf("measured %.0f MB/s, want 1000", got)
	}
	if c.gap != time.Millisecond {
		t.Errorf("gap %v, want 1 ms", c.gap)
	}
}

// What evictd uses before the crossing, and after its act, is not counted.
func TestSpentFromTheCrossingToTheAct(t *testing.T) {
	moments := falling(10, 1, 10)
	for i := range moments {
		moments[i].cpu = time.Duration(i*i) * time.Millisecond
	}
	if got := spent(moments, moments[2].before, moments[5].before.Add(time.Microsecond)); got != 21*time.Millisecond {
		t.Errorf("%v, want 21 ms", got)
	}
	if got := spent(moments, moments[0].before.Add(-1), moments[9].before.Add(time.Second)); got != 81*time.Millisecond {
		t.Errorf("%v, want all", got)
	}
}

func TestCrossingRefusesWhatShowsNothing(t *testing.T) {
	const distance = 1000 * megabyte
	others := falling(distance, megabyte, 1100)
	for i := range others {
		others[i].kernel = distance // no other process uses memory
	}
	for name, moments := range map[string][]moment{
		"none": nil, "never": falling(distance, megabyte, 500), "late": falling(distance, megabyte, 1100)[600:], "others": others,
	} {
		if _, err := crossing(moments, 0, distance); !errors.Is(err, errDisturbed) {
			t.Errorf("%s: error %v, want a disturbed run", name, err)
		}
	}
}

func TestSignsInTheAuditLog(t *testing.T) {
	const head = `{"stage":"ResponseComplete","requestReceivedTimestamp":"2026-01-02T03:04:05.678901Z",`
	kubelet := head + `"user":{"username":"system:node:n"},`
	for name, c := range map[string]struct {
		line string
		by   agent
	}{
		"eviction": {head + `"verb":"create","objectRef":{"resource":"pods","subresource":"eviction","namespace":"bench","name":"a"}}`, byEvictd},
		"status":   {kubelet + `"verb":"patch","objectRef":{"resource":"pods","subresource":"status","namespace":"bench","name":"a"},"requestObject":{"status":{"reason":"Evicted"}}}`, byKubelet},
		"event":    {kubelet + `"verb":"create","objectRef":{"resource":"events","namespace":"bench"},"requestObject":{"reason":"Evicted","involvedObject":{"name":"a"}}}`, byKubelet},
		"other":    {kubelet + `"verb":"patch","objectRef":{"resource":"pods","subresource":"status","namespace":"bench","name":"a"},"requestObject":{"status":{"phase":"Running"}}}`, ""},
		"foreign":  {head + `"verb":"create","objectRef":{"resource":"pods","subresource":"eviction","namespace":"shop","name":"a"}}`, ""},
	} {
		var event audit.Event
		if err := json.Unmarshal([]byte(c.line), &event); err != nil {
			t.Fatal(err)
		}
		for _, a := range agents() {
			sign, is := signOf(&event, a)
			if is != (a == c.by) {
				t.Errorf("%s: a sign of %s: %v", name, a, is)
			}
			if is && (sign.pod != "a" || sign.at.Nanosecond() != 678901000) {
				t.Errorf("%s: %+v", name, sign)
			}
		}
	}
}

// A benchmark that left out the runs in which evictd failed to act would be meaningless.
func TestACrossingWithoutAnActIsNoDisturbance(t *testing.T) {
	silent := fmt.Errorf("%w: nothing reached the API server", errDisturbed)
	for _, test := range []struct {
		a         agent
		uncrossed error
		disturbed bool
	}{
		{byEvictd, nil, false},
		{byEvictd, errDisturbed, true},
		{byKubelet, nil, true}, // it looks every 10 s, and memory may have been freed meanwhile
	} {
		if err := missed(test.a, silent, test.uncrossed); errors.Is(err, errDisturbed) != test.disturbed {
			t.Errorf("%s, uncrossed %v: %v", test.a, test.uncrossed, err)
		}
	}
}
