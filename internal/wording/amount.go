package wording

import (
	"strconv"
	"time"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Amount returns an amount of a signal for people, with its unit.
func Amount(signal pressure.Signal, n int64) string {
	if signal.Unit() == pressure.Bytes {
		return Figure(signal, n)
	}
	return Figure(signal, n) + " " + string(signal.Unit())
}

// Apart says by how much two amounts of a signal differ that read the same when they are
// rounded, in parentheses after a space; "" where they are equal or read differently.
// First is the one that is named first.
func Apart(signal pressure.Signal, first, second int64) string {
	switch {
	case first == second || Figure(signal, first) != Figure(signal, second):
		return ""
	case first < second:
		return " (" + Amount(signal, second-first) + " less)"
	default:
		return " (" + Amount(signal, first-second) + " more)"
	}
}

// Figure is Amount where the unit follows, or is plain.
func Figure(signal pressure.Signal, n int64) string {
	if signal.Unit() == pressure.Bytes {
		return rank.Bytes(n)
	}
	return strconv.FormatInt(n, 10)
}

// Rounded rounds a duration for a sentence.
func Rounded(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
