package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// settledAfter is when a started evictd has synced its pods and rehearsed.
const settledAfter = 20 * time.Second

// dropStartPages lets go of the program's pages that only the start has used, once:
// registering every type of the Kubernetes API touches most of the file, and an agent
// on every node should hold what it needs. The kernel maps again what is needed, from
// its page cache, at a microsecond each; the rehearsals keep the way of a decision
// mapped.
func (d *daemon) dropStartPages(ctx context.Context) error {
	if info, known := debug.ReadBuildInfo(); !known || !liesAsInItsFile(info.Settings) {
		return nil
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(settledAfter):
	}
	if err := dropProgramPages(); err != nil {
		d.logger.Warn("the pages of the start are kept", zap.Error(err))
	}
	return nil
}

// liesAsInItsFile reports whether what cannot be written of a program is the same in memory
// and in its file. A program that may be loaded at any address, or is linked to C, has
// addresses written into its constants at the start, before they are closed to writing:
// the file does not have them.
func liesAsInItsFile(settings []debug.BuildSetting) bool {
	return slices.Contains(settings, debug.BuildSetting{Key: "-buildmode", Value: "exe"}) &&
		slices.Contains(settings, debug.BuildSetting{Key: "CGO_ENABLED", Value: "0"})
}

// dropProgramPages unmaps the pages of the program's code and constants. They are private
// mappings of its file (madvise(2), MADV_DONTNEED): of a program that lies in memory as in
// its file, what comes back is the same.
func dropProgramPages() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("looking for the program: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("reading the program's mappings: %w", err)
	}
	for line := range bytes.Lines(maps) {
		start, length, constant := mappingOf(string(line), program)
		if !constant {
			continue
		}
		if _, _, fault := unix.Syscall(unix.SYS_MADVISE, start, length, unix.MADV_DONTNEED); fault != 0 {
			return fmt.Errorf("letting go of the program's pages: %w", fault)
		}
	}
	return nil
}

// mappingOf reads a line of /proc/self/maps (proc_pid_maps(5)): where the mapping is,
// and whether it is a part of the program that nothing can write to.
func mappingOf(line, program string) (start, length uintptr, constant bool) {
	fields := strings.Fields(line)
	const permissions, path = 1, 5
	if len(fields) <= path || fields[path] != program || strings.Contains(fields[permissions], "w") {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	low, errLow := strconv.ParseUint(from, 16, 64)
	high, errHigh := strconv.ParseUint(to, 16, 64)
	if errLow != nil || errHigh != nil || high <= low {
		return 0, 0, false
	}
	return uintptr(low), uintptr(high - low), true
}
