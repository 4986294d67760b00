package main

import (
	"testing"
	"time"
)

// TestSmall runs everything with few files; the figures are meaningless.
func TestSmall(t *testing.T) {
	s := settings{dir: t.TempDir(), pods: 3, files: 100, rounds: 1}
	if err := compare(t.Context(), s); err != nil {
		t.Error(err)
	}
	s.files = 1
	if err := compare(t.Context(), s); err == nil {
		t.Error("measured pods without files")
	}
}

func TestMiddle(t *testing.T) {
	got := middle([]cost{{wall: 3 * time.Second, cpu: time.Second, read: 5}, {wall: time.Second, cpu: 9 * time.Second, read: 1}, {wall: 2 * time.Second, cpu: 2 * time.Second, read: 3}})
	if want := (cost{wall: 2 * time.Second, cpu: 2 * time.Second, read: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
