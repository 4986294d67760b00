package wording

import (
	"strconv"

	"github.com/evictd/evictd/pkg/pressure"
	"github.com/evictd/evictd/pkg/rank"
)

// Amount returns an amount of a signal for people, with its unit.
func Amount(signal pressure.Signal, n int64) string {
	if signal.Unit() == pressure.Bytes {
		return rank.Bytes(n)
	}
	return strconv.FormatInt(n, 10) + " " + string(signal.Unit())
}
