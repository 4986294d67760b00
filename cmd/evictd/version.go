package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// The linker sets both: -X main.version=v1.2.3 -X main.revision=v1.2.3-4-gabcdef0. The revision is the commit as git
// describes it, with -dirty if files differ from it, and "" where it is not known.
var version, revision = "devel", "" //nolint:gochecknoglobals // only the linker can set them

// buildInfo is what `evictd version -o json` prints.
type buildInfo struct {
	Version string `json:"version"`
	// Revision is the commit; empty if it is not known.
	Revision  string `json:"revision,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := newCommand("version", "Print the version", func(cmd *cobra.Command, _ []string) error {
		b := buildInfo{version, revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
		if output == formatJSON {
			return writeJSON(cmd.OutOrStdout(), b)
		}
		source := ""
		if b.Revision != "" {
			source = b.Revision + ", "
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "evictd %s (%s%s, %s)\n", b.Version, source, b.GoVersion, b.Platform)
		return err
	})
	addChoice(cmd, &output, "output", "o", "text", formatJSON)
	return cmd
}
