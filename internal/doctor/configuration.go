package doctor

import (
	"strings"

	"github.com/evictd/evictd/pkg/pressure"
)

// Configuration is evictd's own.
type Configuration struct {
	// File is its path; "" where none was named, and the defaults are checked.
	File string
	// Err is why it is refused; nil where it is valid. The defaults are checked instead.
	Err error
	// DryRun says that no pod is evicted.
	DryRun bool
	// Thresholds are those of what is checked.
	Thresholds []pressure.Threshold
	// Warnings are valid settings that are probably mistakes, one sentence each.
	Warnings []string
}

func configuration(c *Configuration) Finding {
	const name, defaults = "configuration", "the checks below are of the default configuration"
	switch {
	case c.Err != nil:
		return Finding{
			name, Missing, oneLine(c.Err),
			"evictd goes on with the last valid configuration in dry run, or evicts no pod; " + defaults,
			"fix each field that is named; evictd config validate checks a file",
		}
	case c.File == "":
		return Finding{
			name, Degraded, "no file is named", defaults,
			"name the file that evictd run gets, as by --config=/etc/evictd/evictd.yaml",
		}
	case len(c.Warnings) > 0:
		return Finding{
			name, Degraded, c.File + " is valid: " + strings.Join(c.Warnings, "; "),
			"evictd does what the file says, which is probably not meant", "change the fields that are named",
		}
	case c.DryRun:
		return fine(name, c.File+" is valid; it is a dry run, which evicts no pod")
	default:
		return fine(name, c.File+" is valid; evictd evicts pods")
	}
}
