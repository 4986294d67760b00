package wording

import (
	"strconv"

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

// Figure is Amount where the unit follows, or is plain.
func Figure(signal pressure.Signal, n int64) string {
	if signal.Unit() == pressure.Bytes {
		return rank.Bytes(n)
	}
	return strconv.FormatInt(n, 10)
}
