package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/pkg/pressure"
)

// largest is 1 EiB, in bytes, inodes or tasks: more than any node has, and small
// enough that a threshold plus a reclaim stays an int64.
const largest = int64(1) << 60

// ParseThreshold reads a threshold by the kubelet's grammar (parseThresholdStatement,
// pkg/kubelet/eviction/helpers.go), without what can only be a mistake. The error says what to do
// instead. Zero is a threshold that is switched off.
func ParseThreshold(text string) (pressure.Quantity, error) {
	if text == "0%" || text == "100%" {
		return pressure.Quantity{}, nil
	}
	q, err := parseQuantity(text)
	part := share(text)
	switch {
	case err != nil:
	case part < 0 || part > 1:
		err = errors.New("must be between 0% and 100%")
	case part == 1:
		err = errors.New(`would always be met: write "100%" to switch the threshold off, or a smaller percentage`)
	case q.IsZero():
		err = errors.New(`would never be met: write "0%" to switch the threshold off`)
	default:
		return q, nil
	}
	return pressure.Quantity{}, err
}

// parseReclaim reads a minimum reclaim by the kubelet's grammar
// (parseMinimumReclaims, same file), without what can only be a mistake.
func parseReclaim(text string) (pressure.Quantity, error) {
	q, err := parseQuantity(text)
	switch {
	case err != nil:
	case isShare(text) && share(text) <= 0:
		err = errors.New("a percentage must be above 0%: remove it for no minimum reclaim")
	case share(text) >= 1:
		err = errors.New("must be below 100%, or a pressure would never be over")
	default:
		return q, nil
	}
	return pressure.Quantity{}, err
}

// The bounds of a stall's share. Every node that reclaims memory stalls for a thousandth of the
// time.
const (
	stallLowest  float32 = 0.01
	stallHighest float32 = 0.99
)

// parseStall reads the share of a window in which tasks may wait. What is available of the window is
// the part in which no task stalled.
func parseStall(text string) (available pressure.Quantity, err error) {
	part, err := percentage(text)
	if err == nil && (part < stallLowest || part > stallHighest) {
		err = errors.New("must be between 1% and 99%: remove memoryStall to switch it off")
	}
	return pressure.Fraction(1 - part), err
}

// parseQuantity reads a percentage or an amount.
func parseQuantity(text string) (pressure.Quantity, error) {
	if isShare(text) {
		part, err := percentage(text)
		return pressure.Fraction(part), err
	}
	amount, err := parseAmount(text)
	return pressure.Absolute(amount), err
}

func isShare(text string) bool { return strings.HasSuffix(text, "%") }

// share returns the share of the capacity that a text means, 0 for an amount.
func share(text string) float32 {
	part, _ := percentage(text)
	return part
}

// percentage returns the share that a text ending in % means. The arithmetic is in float32 because
// the kubelet's is (parsePercentage, same file): the same text must be the same number of bytes to
// both.
func percentage(text string) (float32, error) {
	number, found := strings.CutSuffix(text, "%")
	parsed, err := strconv.ParseFloat(number, 32)
	if err != nil || !found || math.IsNaN(parsed) || math.IsInf(parsed, 0) {
		return 0, errors.New(`is not a percentage: write a number and one percent sign, like "10%"`)
	}
	return float32(parsed) / 100, nil
}

// parseAmount reads a resource.Quantity of whole bytes, inodes or tasks.
func parseAmount(text string) (int64, error) {
	q, err := quantityOf(text)
	switch {
	case err != nil:
		return 0, err
	case q.Sign() < 0:
		return 0, errors.New("must not be negative")
	case q.CmpInt64(largest) > 0:
		return 0, errors.New("is more than any node has (1Ei): write a smaller amount")
	case strings.ContainsAny(text[len(text)-1:], "mun"):
		return 0, errors.New("is in thousandths or less: write M for mega or Mi for mebi, m is milli")
	// 1.3Gi is not a whole number of bytes, but a reasonable value to write.
	case q.CmpInt64(q.Value()) != 0 && !strings.ContainsAny(text[len(text)-1:], "ikMGTPE"):
		return 0, errors.New(`must be a whole number, or a percentage like "5%"`)
	}
	// Value rounds up. An observed whole number is below 1.3 exactly when it is below
	// 2, so the threshold is met for the same readings as the kubelet's.
	return q.Value(), nil
}

// quantityOf is [resource.ParseQuantity] for untrusted text. The latter takes its time over thousands
// of digits, and computes the power of ten of a text like 1e-1000000, which takes 60 ms, and with nine
// more zeros does not end. More than 32 characters and a power of three digits are refused first.
func quantityOf(text string) (resource.Quantity, error) {
	if regexp.MustCompile(`(?s)^.{33}|[eE][+-]?0*[1-9][0-9]{2,}$`).MatchString(text) {
		return resource.Quantity{}, errors.New("must be a whole number, and not more than any node has (1Ei)")
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}, errors.New(`is neither an amount nor a percentage: write one like "500Mi" or "10%"`)
	}
	return q, nil
}
