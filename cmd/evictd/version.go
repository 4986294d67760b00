package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// The linker sets both: -X main.version=v1.2.3 -X main.revision=v1.2.3-4-gabcdef0.
var (
	version string
	// revision is the commit as git describes it, with -dirty if files differ from it.
	revision string //nolint:gochecknoglobals // only the linker can set it
)

// buildVersion returns the version that was linked in, otherwise the module's, otherwise
// "devel".
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// buildInfo is what `evictd version -o json` prints.
type buildInfo struct {
	Version string `json:"version"`
	// Revision is the commit; empty if it is not known.
	Revision  string `json:"revision,omitempty"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	output := "text"
	cmd := newCommand("version", "Print the version", func(cmd *cobra.Command) error {
		b := buildInfo{buildVersion(), revision, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
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
	addChoice(cmd, &output, "output", "o", "text, or json for machines", "text", formatJSON)
	return cmd
}
