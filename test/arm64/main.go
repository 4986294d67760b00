// Command arm64 runs evictd for arm64 as far as that goes without a node: its version, and the
// ranking of a recorded node, which must be the one that the tests expect of this machine's. On
// another architecture it runs under qemu in user mode.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/evictd/evictd/test/internal/measure"
	"github.com/evictd/evictd/test/internal/vm"
)

type options struct {
	binary  string
	version string
	debian  string // of the unpacked packages
	records string // with the record of a node and its ranking
}

func main() { os.Exit(measure.Run("test-arm64", run)) }

func run(ctx context.Context, arguments []string) error {
	var o options
	flags := flag.NewFlagSet("arm64", flag.ContinueOnError)
	flags.StringVar(&o.binary, "binary", "../bin/image/linux-arm64/evictd", "evictd for arm64")
	flags.StringVar(&o.version, "version", "", "the version that it must have")
	flags.StringVar(&o.debian, "debian", "../bin/vm", "where qemu is kept")
	flags.StringVar(&o.records, "records", "../cmd/evictd/testdata/rank", "where worker-1.json and its ranking table.txt are")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if _, err := os.Stat(o.binary); err != nil {
		return fmt.Errorf("evictd for arm64 is missing: run 'make image-layout': %w", err)
	}
	evictd, where := []string{o.binary}, "on this machine"
	if runtime.GOARCH != "arm64" {
		emulator, err := vm.Emulator(ctx, o.debian, "aarch64")
		if err != nil {
			return fmt.Errorf("evictd for arm64 cannot be run: %w", err)
		}
		evictd, where = []string{emulator, o.binary}, "under "+filepath.Base(emulator)
	}
	if err := checkVersion(ctx, evictd, where, o.version); err != nil {
		return err
	}
	return checkRanking(ctx, evictd, where, o.records)
}

// checkVersion compares what `evictd version` prints with the version and the platform.
func checkVersion(ctx context.Context, evictd []string, where, version string) error {
	printed, err := output(ctx, evictd, "version")
	if err != nil {
		return err
	}
	line := strings.TrimSpace(string(printed))
	if !strings.HasPrefix(line, "evictd "+version+" ") || !strings.HasSuffix(line, " linux/arm64)") {
		return fmt.Errorf("evictd version, %s: %q is not version %s for linux/arm64", where, line, version)
	}
	fmt.Printf("evictd version, %s: %s\n", where, line)
	return nil
}

// checkRanking compares the ranking of the recorded node with the expected one.
func checkRanking(ctx context.Context, evictd []string, where, records string) error {
	want, err := os.ReadFile(filepath.Join(records, "table.txt")) //nolint:gosec // the caller names it
	if err != nil {
		return fmt.Errorf("reading the expected ranking: %w", err)
	}
	record := filepath.Join(records, "worker-1.json")
	got, err := output(ctx, evictd, "rank", "--snapshot", record)
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("evictd rank --snapshot %s, %s, printed\n%s\nwant\n%s", record, where, got, want)
	}
	fmt.Printf("evictd rank --snapshot, %s: %d lines, as expected\n", where, bytes.Count(got, []byte("\n")))
	return nil
}

// output returns what evictd prints with these arguments.
func output(ctx context.Context, evictd []string, args ...string) ([]byte, error) {
	words := append(evictd[1:len(evictd):len(evictd)], args...)
	command := exec.CommandContext(ctx, evictd[0], words...) //nolint:gosec // the caller's own binary
	var printed, failure bytes.Buffer
	command.Stdout, command.Stderr = &printed, &failure
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("running evictd %s for arm64: %w: %s", args[0], err, bytes.TrimSpace(failure.Bytes()))
	}
	return printed.Bytes(), nil
}
