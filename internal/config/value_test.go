package config

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/evictd/evictd/internal/testing/golden"
	"github.com/evictd/evictd/pkg/pressure"
)

// TestValues: what each text of testdata/values.txt is as a threshold and as a minimum reclaim, of capacities from 1000 to
// 100 GiB, or why it is refused. The thresholds are the kubelet's own results, float32 percentages included, which differ from
// exact arithmetic; test/parity compares them, and docs/configuration.md has what is refused here alone.
func TestValues(t *testing.T) {
	t.Parallel()
	golden.Sections(t, "testdata/values.txt", os.Getenv("UPDATE_GOLDEN") == "1", "UPDATE_GOLDEN=1", func(name, _ string) []string {
		quoted, err := strconv.QuotedPrefix(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		says := func(parse func(string) (pressure.Quantity, error)) string {
			q, err := parse(text)
			switch {
			case err != nil:
				return "refused: " + err.Error()
			case q.IsZero():
				return "off"
			}
			return fmt.Sprint(q.Of(1000), " ", q.Of(100_000), " ", q.Of(1<<30), " ", q.Of(100<<30))
		}
		return []string{"threshold: " + says(ParseThreshold), "reclaim: " + says(parseReclaim)}
	})
}

// FuzzThresholdValue: the parsers agree about what a node can have. That a text means what it means to
// the kubelet is compared with the kubelet's own parser in test/parity.
func FuzzThresholdValue(f *testing.F) {
	for _, seed := range []string{"10%", "0%", "100.0%", "NaN%", "100Mi", "1e19", "1.3Gi", "100m", "-1", "0x1p3%", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, parse := range []func(string) (pressure.Quantity, error){ParseThreshold, parseReclaim} {
			v, err := parse(text)
			if err != nil {
				if err.Error() == "" || v != (pressure.Quantity{}) {
					t.Errorf("%q: refused with %q and %+v", text, err, v)
				}
				continue
			}
			// What is accepted lies between nothing and everything on every node, and a
			// threshold plus a reclaim is no overflow.
			for _, capacity := range []int64{0, 1, 1 << 40, largest} {
				if n := v.Of(capacity); n < 0 || n > largest {
					t.Errorf("%q of %d is %d", text, capacity, n)
				}
			}
			if part := share(text); isShare(text) && text != "100%" && (math.IsNaN(float64(part)) || part < 0 || part >= 1) {
				t.Errorf("%q is the share %v", text, part)
			}
		}
	})
}
