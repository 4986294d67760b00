package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/pkg/pressure"
)

const (
	// longest bounds a value's text: resource.ParseQuantity takes its time over
	// thousands of digits.
	longest = 32
	// largest is 1 EiB, in bytes, inodes or tasks: more than any node has, and small
	// enough that a threshold plus a reclaim stays an int64.
	largest = int64(1) << 60
)

// value is a threshold or a minimum reclaim as the file writes it. The zero value
// is the amount 0.
type value struct {
	// off says that the text switches the threshold off; the rest is zero then.
	off bool
	// relative says that fraction counts and absolute does not.
	relative bool
	// fraction is a share of the capacity, 0 to 1.
	fraction float32
	// absolute is bytes, inodes or tasks.
	absolute int64
}

// quantity returns the value as package pressure takes it.
func (v value) quantity() pressure.Quantity {
	if v.relative {
		return pressure.Fraction(v.fraction)
	}
	return pressure.Absolute(v.absolute)
}

// aheadOf reports whether a threshold of v is met before one of w as a signal
// falls. It is true where the two cannot be compared without a node's capacity.
func (v value) aheadOf(w value) bool {
	switch {
	case v.off || w.off || v.relative != w.relative:
		return true
	case v.relative:
		return v.fraction > w.fraction
	default:
		return v.absolute > w.absolute
	}
}

// parseThreshold reads a threshold by the kubelet's grammar (parseThresholdStatement,
// pkg/kubelet/eviction/helpers.go), without what can only be a mistake. The error
// says what to do instead.
func parseThreshold(text string) (value, error) {
	if text == "0%" || text == "100%" {
		return value{off: true}, nil
	}
	if !strings.HasSuffix(text, "%") {
		amount, err := ParseAmount(text)
		if err == nil && amount == 0 {
			err = errors.New(`must be above 0: write "0%" to switch the threshold off`)
		}
		return value{absolute: amount}, err
	}
	fraction, err := parsePercentage(text)
	switch {
	case err != nil:
		return value{}, err
	case fraction < 0 || fraction > 1:
		return value{}, errors.New("must be between 0% and 100%")
	case fraction == 0:
		return value{}, errors.New(`would never be met: write "0%" to switch the threshold off`)
	case fraction == 1:
		return value{}, errors.New(`would always be met: write "100%" to switch the threshold off, or a smaller percentage`)
	}
	return value{relative: true, fraction: fraction}, nil
}

// parseReclaim reads a minimum reclaim by the kubelet's grammar
// (parseMinimumReclaims, same file), without what can only be a mistake.
func parseReclaim(text string) (value, error) {
	if !strings.HasSuffix(text, "%") {
		amount, err := ParseAmount(text)
		return value{absolute: amount}, err
	}
	fraction, err := parsePercentage(text)
	switch {
	case err != nil:
		return value{}, err
	case fraction <= 0:
		return value{}, errors.New("a percentage must be above 0%: remove it for no minimum reclaim")
	case fraction >= 1:
		return value{}, errors.New("must be below 100%, or a pressure would never be over")
	}
	return value{relative: true, fraction: fraction}, nil
}

// The bounds of a stall's share. Every node that reclaims memory stalls for a thousandth of the
// time.
const (
	stallLowest  float32 = 0.01
	stallHighest float32 = 0.99
)

// parseStall reads the share of a window in which tasks may wait.
func parseStall(text string) (float32, error) {
	if !strings.HasSuffix(text, "%") {
		return 0, errors.New(`must be a percentage of the window, such as "10%"`)
	}
	share, err := parsePercentage(text)
	switch {
	case err != nil:
		return 0, err
	case share < stallLowest || share > stallHighest:
		return 0, errors.New("must be between 1% and 99%: remove memoryStall to switch it off")
	}
	return share, nil
}

// parsePercentage returns the share that a text ending in % means. The arithmetic
// is in float32 because the kubelet's is (parsePercentage, same file): the same
// text must be the same number of bytes to both.
func parsePercentage(text string) (float32, error) {
	number := strings.TrimSuffix(text, "%")
	if strings.HasSuffix(number, "%") {
		return 0, errors.New("has more than one percent sign: write one")
	}
	parsed, err := strconv.ParseFloat(number, 32)
	if err != nil {
		return 0, errors.New(`is not a percentage: write a number and a percent sign, like "10%"`)
	}
	if math.IsNaN(parsed) || math.IsInf(parsed, 0) {
		return 0, errors.New(`is not a number: write one, like "10%"`)
	}
	return float32(parsed) / 100, nil
}

// ParseAmount reads a resource.Quantity of whole bytes, inodes or tasks.
func ParseAmount(text string) (int64, error) {
	q, err := ParseQuantity(text)
	switch {
	case err != nil:
		return 0, err
	case q.Sign() < 0:
		return 0, errors.New("must not be negative")
	case q.CmpInt64(largest) > 0:
		return 0, tooLarge()
	case strings.ContainsAny(text[len(text)-1:], "mun"):
		return 0, errors.New(`is in thousandths or less: M is mega, Mi is mebi, m is milli`)
	case q.CmpInt64(q.Value()) != 0 && !multiple(text):
		return 0, errors.New("must be a whole number")
	}
	// Value rounds up. An observed whole number is below 1.3 exactly when it is below
	// 2, so the threshold is met for the same readings as the kubelet's.
	return q.Value(), nil
}

// ParseQuantity is [resource.ParseQuantity] for untrusted text. The latter computes the power of
// ten of a text like 1e-1000000, which takes 60 ms, and with nine more zeros does not end.
// ParseQuantity limits the size of the power first.
func ParseQuantity(text string) (resource.Quantity, error) {
	const most = 18
	switch n := exponent(text); {
	case len(text) > longest:
		return resource.Quantity{}, fmt.Errorf("is longer than %d characters: not an amount", longest)
	case n > most:
		return resource.Quantity{}, tooLarge()
	case n < -most:
		return resource.Quantity{}, errors.New("must be a whole number")
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, errors.New(`is neither an amount nor a percentage: write one like "500Mi" or "10%"`)
	}
	return q, nil
}

func tooLarge() error {
	return errors.New("is more than any node has (1Ei): write a smaller amount")
}

// multiple reports whether the text ends in a unit above one: 1.3Gi is not a whole number of bytes,
// but a reasonable value to write.
func multiple(text string) bool {
	return strings.ContainsAny(text[len(text)-1:], "ikMGTPE")
}

// exponent returns the power of ten of a text like 1e3, 0 without one.
func exponent(text string) int {
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return 0
	}
	n, err := strconv.Atoi(text[at+1:]) // out of range gives the largest or smallest int
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return n
}
