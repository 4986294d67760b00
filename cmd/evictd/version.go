package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
)

// The linker sets both: -X main.version=v1.2.3 -X main.revision=v1.2.3-4-gabcdef0. The revision is the commit as git
// describes it, with -dirty if files differ from it, and "" where it is not known.
var version, revision = "devel", "" //nolint:gochecknoglobals // only the linker can set them

// printVersion is `evictd version` and `evictd --version`.
func printVersion(cmd *cobra.Command, _ []string) error {
	source := strings.TrimPrefix(revision+", ", ", ") // "" where it is not known
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "evictd %s (%s%s, %s/%s)\n", version, source, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
