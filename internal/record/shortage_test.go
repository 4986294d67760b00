package record

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// A reading and a line that are rounded to the same text say how far they are apart, and
// the log writes the line as the configuration does.
func TestShortageOfFiguresThatReadTheSame(t *testing.T) {
	t.Parallel()
	const gibi = 1 << 30
	for available, want := range map[int64]string{
		22*gibi - 3<<19: "On node n memory.available is 22.0Gi of 40.0Gi; its hard threshold is 22.0Gi (1.5Mi more).",
		22*gibi + 3<<19: "On node n memory.available is 22.0Gi of 40.0Gi; its hard threshold is 22.0Gi (1.5Mi less).",
		22 * gibi:       "On node n memory.available is 22.0Gi of 40.0Gi; its hard threshold is 22.0Gi.",
		21 * gibi:       "On node n memory.available is 21.0Gi of 40.0Gi; its hard threshold is 22.0Gi.",
	} {
		p := pressure.Pressure{
			Threshold: pressure.Threshold{Quantity: pressure.Absolute(22 * gibi), Written: "22Gi", Hard: true},
			Observed:  pressure.Observation{State: pressure.Known, Available: available, Capacity: 40 * gibi},
			Line:      22 * gibi, Target: 22 * gibi,
		}
		if got := (&Recorder{settings: Settings{NodeName: "n"}}).shortage(&p); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := string(pressureLine(&p).json()); !strings.Contains(got, `"threshold":"22Gi"`) {
			t.Errorf("the log writes the threshold as %s", got)
		}
	}
}
