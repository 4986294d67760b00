package config

import (
	"math"
	"strings"
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

// TestThresholdValueBytes holds the kubelet's own results: float32 percentages
// included, which differ from exact arithmetic.
func TestThresholdValueBytes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text     string
		capacity int64
		want     int64
	}{
		{"10%", 107374182400, 10737418400},
		{"15%", 107374182400, 16106128000},
		{"10.5%", 1 << 30, 112742888},
		{"8%", 100000, 7999},     // 8% as a float32 is a little less than 0.08
		{"0x8p0%", 100000, 7999}, // strconv's grammar, which is the kubelet's
		{"+5%", 1000, 50},
		{"100Mi", 0, 100 << 20},
		{"1e3", 0, 1000},
		{"1.5e3", 0, 1500},
		{"1k", 0, 1000},
		{"1.3Gi", 0, 1395864372}, // 1395864371.2, and available < 1395864371.2 is < 1395864372
		{"9", 0, 9},
		{"1Ei", 0, 1 << 60},
	} {
		got, err := ParseThreshold(tc.text)
		if err != nil {
			t.Errorf("%s: %v", tc.text, err)
			continue
		}
		if bytes := got.Of(tc.capacity); bytes != tc.want {
			t.Errorf("%s of %d: got %d, want %d", tc.text, tc.capacity, bytes, tc.want)
		}
	}
}

func TestThresholdValueOff(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0%", "100%"} {
		if got, err := ParseThreshold(text); err != nil || !got.IsZero() {
			t.Errorf("%s: got %+v, %v; want switched off", text, got, err)
		}
	}
}

func TestThresholdValueRefused(t *testing.T) {
	t.Parallel()
	for text, say := range map[string]string{
		// Refused by the kubelet too.
		"10..5%": "not a percentage",
		"%":      "not a percentage",
		" 5%":    "not a percentage",
		"5% ":    "neither an amount nor a percentage",
		"-1%":    "between 0% and 100%",
		"101%":   "between 0% and 100%",
		"Inf%":   "not a number",
		"":       "neither an amount nor a percentage",
		"lots":   "neither an amount nor a percentage",
		"0":      "above 0",
		"0Mi":    "above 0",
		"-1Mi":   "negative",
		// Differences, see docs/configuration.md.
		"100.0%":                "always be met",
		"1e2%":                  "always be met",
		"+100%":                 "always be met",
		"99.999999%":            "always be met",
		"0.0%":                  "never be met",
		"-0%":                   "never be met",
		"1e-60%":                "never be met",
		"NaN%":                  "not a number",
		"10%%":                  "more than one percent sign",
		"100m":                  "thousandths",
		"100000m":               "thousandths",
		"1.5":                   "whole number",
		"1e-3":                  "whole number",
		"1e-99999999999":        "whole number",
		"1E+0100":               "not more than any node has",
		"2Ei":                   "more than any node has",
		"1e19":                  "more than any node has",
		"1e99999999999999999":   "not more than any node has",
		strings.Repeat("9", 33): "longer than 32",
	} {
		got, err := ParseThreshold(text)
		if err == nil {
			t.Errorf("%q: got %+v, want it refused", text, got)
			continue
		}
		if !strings.Contains(err.Error(), say) {
			t.Errorf("%q: got %q, want it to say %q", text, err, say)
		}
	}
}

func TestReclaimValue(t *testing.T) {
	t.Parallel()
	// 2% as a float32 is a little less than 0.02.
	for text, want := range map[string]int64{"0": 0, "0Mi": 0, "500Mi": 500 << 20, "2%": 19, "99%": 990} {
		got, err := parseReclaim(text)
		if err != nil || got.Of(1000) != want {
			t.Errorf("%s: got %+v, %v; want %d", text, got, err, want)
		}
	}
	for text, say := range map[string]string{
		"0%": "above 0%", "-5%": "above 0%", "-0%": "above 0%", "-1Mi": "negative", "x": "neither",
		"100%": "below 100%", "250%": "below 100%", "NaN%": "not a number", "5%%": "more than one", "5m": "thousandths",
	} {
		got, err := parseReclaim(text)
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: got %+v, %v; want it to say %q", text, got, err, say)
		}
	}
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
