package main

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/internal/hostinfo"
)

// On this machine everything is known.
func TestHostMemory(t *testing.T) {
	t.Parallel()
	reader := hostinfo.New("", "/kubepods")
	h := newHostMemory(reader, func(err error) { t.Error(err) })
	ctx, incident := patience(t), "memory.available-1"
	for {
		memory, now := h.MemoryUsed(incident, time.Now()), time.Now()
		largest, pending := h.Processes(incident, now)
		if len(memory) == len(hostinfo.Parts()) && !pending {
			if len(largest) != 3 || largest[0].Name == "" || largest[0].RSS < largest[2].RSS || largest[2].RSS <= 0 {
				t.Errorf("the largest processes: %+v", largest)
			}
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("memory %v, processes %v, pending %v", memory, largest, pending)
		}
		runtime.Gosched()
	}
}

// The line at startup identifies the host, or says why that is unknown.
func TestThisHost(t *testing.T) {
	t.Parallel()
	var uname unix.Utsname
	if err := unix.Uname(&uname); err != nil {
		t.Fatal(err)
	}
	for root, want := range map[string]string{"": "kernel", t.TempDir(): "host_unread"} {
		recorded := recordHost(t.Context(), hostinfo.New(root, "/kubepods"))
		if known := recorded.Kernel == unix.ByteSliceToString(uname.Release[:]) && !recorded.BootTime.IsZero(); known != (root == "") {
			t.Errorf("host root %q: recorded %+v", root, recorded)
		}
		line := zapcore.NewMapObjectEncoder()
		thisHost(t.Context(), hostinfo.New(root, "/kubepods")).AddTo(line)
		if line.Fields[want] == nil {
			t.Errorf("host root %q: %v, want %s", root, line.Fields, want)
		}
		if kernel := line.Fields["kernel"]; kernel != nil && kernel != unix.ByteSliceToString(uname.Release[:]) {
			t.Errorf("kernel %v, want %s", kernel, uname.Release)
		}
		if booted, _ := line.Fields["boot_time"].(time.Time); want == "kernel" && (booted.IsZero() || booted.After(time.Now())) {
			t.Errorf("booted %v", booted)
		}
	}
}
