package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X main.version=v1.2.3).
var version string

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
	Version   string `json:"version"`
	GoVersion string `json:"goVersion"`
	Platform  string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := buildInfo{buildVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			switch output {
			case "":
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "evictd %s (%s, %s)\n", b.Version, b.GoVersion, b.Platform)
				return err
			case "json":
				return json.NewEncoder(cmd.OutOrStdout()).Encode(b)
			default:
				return usageError{fmt.Errorf("--output %q: leave it out or write json", output)}
			}
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "json for machines")
	return cmd
}
