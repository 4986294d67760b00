package parity

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/internal/config"
	"github.com/evictd/evictd/pkg/pressure"
)

// Refusal is the name of a configuration value that the kubelet accepts and evictd rejects.
// Each has a line in docs/configuration.md.
type Refusal string

// The refusals.
const (
	OtherHundred      Refusal = "100-percent-in-other-words"
	OtherZero         Refusal = "0-percent-in-other-words"
	NotANumber        Refusal = "nan-percent"
	PercentSigns      Refusal = "several-percent-signs"
	Thousandths       Refusal = "thousandths"
	NotWhole          Refusal = "not-whole"
	TooLarge          Refusal = "too-large"
	SoftBelowHard     Refusal = "soft-not-above-hard"
	GraceAlone        Refusal = "grace-without-threshold"
	ReclaimAlone      Refusal = "reclaim-without-threshold"
	ReclaimEverything Refusal = "reclaim-of-everything"
	ContainerFS       Refusal = "containerfs"
)

// Refusals returns every name.
func Refusals() []Refusal {
	return []Refusal{
		OtherHundred, OtherZero, NotANumber, PercentSigns, Thousandths, NotWhole, TooLarge,
		SoftBelowHard, GraceAlone, ReclaimAlone, ReclaimEverything, ContainerFS,
	}
}

// Verdict is the result of giving one configuration to both.
type Verdict struct {
	// Accepted says that evictd accepts it, KubeletAccepts that the kubelet does.
	Accepted, KubeletAccepts bool
	// Refused are the reasons for which evictd rejects what the kubelet accepts.
	Refused map[Refusal]bool
	// Unexplained says what differs without a name.
	Unexplained []string
}

// CompareGrammar parses a configuration with both parsers.
func CompareGrammar(t *Thresholds) (*Verdict, error) {
	v := &Verdict{Refused: map[Refusal]bool{}}
	kubelets, kubeletErr := t.kubelet()
	evictds, evictdErr := t.evictd()
	var invalid utilerrors.Aggregate
	if evictdErr != nil && !errors.As(evictdErr, &invalid) {
		return nil, fmt.Errorf("giving evictd the configuration: %w", evictdErr)
	}
	v.Accepted, v.KubeletAccepts = evictdErr == nil, kubeletErr == nil
	switch {
	case v.Accepted && v.KubeletAccepts:
		v.meaning(kubelets, evictds)
		for path, refusals := range t.refusals() {
			v.Unexplained = append(v.Unexplained, fmt.Sprintf("%s: evictd should refuse it: %v", path, refusals))
		}
	case v.Accepted:
		v.Unexplained = append(v.Unexplained, fmt.Sprintf("only evictd accepts it; the kubelet says %v", kubeletErr))
	case v.KubeletAccepts:
		v.named(t.refusals(), invalid)
	}
	return v, nil
}

// evictd returns the thresholds as evictd reads them from a file.
func (t *Thresholds) evictd() ([]pressure.Threshold, error) {
	text := func(texts map[string]string) map[string]string {
		if texts == nil {
			return map[string]string{} // a missing map means the defaults
		}
		return texts
	}
	file, err := yaml.Marshal(map[string]any{
		"apiVersion": config.APIVersion, "kind": config.Kind,
		"evictionHard": text(t.Hard), "evictionSoft": text(t.Soft),
		"evictionSoftGracePeriod": text(t.Grace), "evictionMinimumReclaim": text(t.Reclaim),
	})
	if err != nil {
		return nil, fmt.Errorf("writing a configuration: %w", err)
	}
	c, err := config.Parse(file)
	if err != nil {
		return nil, err
	}
	return c.Thresholds(), nil
}

// meaning compares the meaning of an accepted configuration for both.
func (v *Verdict) meaning(kubelets []evictionapi.Threshold, evictds []pressure.Threshold) {
	theirs := make([]string, 0, len(kubelets))
	for i := range kubelets {
		t := &kubelets[i]
		theirs = append(theirs, fmt.Sprintf("%v %v %v %v", t.Signal, t.GracePeriod, amounts(func(capacity int64) int64 {
			return quantityOf(t.Value, capacity)
		}), amounts(func(capacity int64) int64 {
			if t.MinReclaim == nil {
				return 0
			}
			return quantityOf(*t.MinReclaim, capacity)
		})))
	}
	ours := make([]string, 0, len(evictds))
	for _, t := range evictds {
		ours = append(ours, fmt.Sprintf("%v %v %v %v", t.Signal, t.Grace, amounts(t.Quantity.Of), amounts(t.MinReclaim.Of)))
		if t.Hard != (t.Grace == 0) {
			v.Unexplained = append(v.Unexplained, fmt.Sprintf("%v is hard for one of the two only", t))
		}
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(theirs, ours) {
		v.Unexplained = append(v.Unexplained, fmt.Sprintf("it means, at capacities %v:\nevictd:  %v\nkubelet: %v", capacities(), ours, theirs))
	}
}

// capacities returns capacities of nodes of all sizes, and those where a float32 percentage
// and an exact one differ.
func capacities() []int64 {
	return []int64{0, 1, 99, 32768, 1 << 30, 16777217, 107374182400, 4398046511103, 1 << 53}
}

func amounts(of func(int64) int64) []int64 {
	var all []int64
	for _, capacity := range capacities() {
		all = append(all, of(capacity))
	}
	return all
}

func quantityOf(value evictionapi.ThresholdValue, capacity int64) int64 {
	return evictionapi.GetThresholdQuantity(value, resource.NewQuantity(capacity, resource.BinarySI)).Value()
}

// named checks that each of evictd's faults has a name.
func (v *Verdict) named(refusals map[string][]Refusal, invalid utilerrors.Aggregate) {
	for _, err := range invalid.Errors() {
		path, _, _ := strings.Cut(err.Error(), ": ")
		reasons := refusals[path]
		if len(reasons) == 0 {
			v.Unexplained = append(v.Unexplained, "only evictd refuses it: "+err.Error())
		}
		for _, reason := range reasons {
			v.Refused[reason] = true
		}
	}
}

// refusals returns why evictd should reject each value, by the field's path. It follows
// docs/configuration.md, not evictd's code.
func (t *Thresholds) refusals() map[string][]Refusal {
	all := map[string][]Refusal{}
	add := func(holds bool, of, signal string, reason Refusal) {
		if holds {
			path := of + "[" + signal + "]"
			all[path] = append(all[path], reason)
		}
	}
	for of, texts := range map[string]map[string]string{
		"evictionHard": t.Hard, "evictionSoft": t.Soft, "evictionSoftGracePeriod": t.Grace, "evictionMinimumReclaim": t.Reclaim,
	} {
		for signal, text := range texts {
			add(strings.HasPrefix(signal, "containerfs."), of, signal, ContainerFS)
			for _, reason := range refusedText(text, of) {
				add(true, of, signal, reason)
			}
		}
	}
	for signal, text := range t.Soft {
		add(notAbove(text, t.Hard[signal]), "evictionSoft", signal, SoftBelowHard)
	}
	for signal := range t.Grace {
		_, soft := t.Soft[signal]
		add(!soft, "evictionSoftGracePeriod", signal, GraceAlone)
	}
	for signal, text := range t.Reclaim {
		hard, soft := t.Hard[signal], t.Soft[signal]
		add(hard == "" && soft == "", "evictionMinimumReclaim", signal, ReclaimAlone)
		whole := everything(text, "0%") || everything(text, hard) || everything(text, soft)
		add(whole, "evictionMinimumReclaim", signal, ReclaimEverything)
	}
	return all
}

// share returns the share of the capacity that the kubelet reads from a text.
func share(text string) (float32, bool) {
	if !strings.HasSuffix(text, "%") {
		return 0, false
	}
	percent, err := strconv.ParseFloat(strings.TrimRight(text, "%"), 32)
	return float32(percent) / 100, err == nil
}

// refusedText returns why a single value is rejected.
func refusedText(text, of string) []Refusal {
	if of == "evictionSoftGracePeriod" {
		return nil
	}
	threshold := of != "evictionMinimumReclaim"
	part, percent := share(text)
	var reasons []Refusal
	add := func(holds bool, reason Refusal) {
		if holds {
			reasons = append(reasons, reason)
		}
	}
	if percent {
		add(threshold && part == 1 && text != "100%", OtherHundred)
		add(threshold && part == 0 && text != "0%", OtherZero)
		add(math.IsNaN(float64(part)), NotANumber)
		add(math.IsInf(float64(part), 0), ReclaimEverything)
		add(strings.HasSuffix(text, "%%"), PercentSigns)
		return reasons
	}
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return nil // both reject it
	}
	last := text[len(text)-1:]
	tiny := strings.Contains("mun", last)
	add(tiny, Thousandths)
	add(!tiny && q.CmpInt64(q.Value()) != 0 && !strings.Contains("ikMGTPE", last), NotWhole)
	add(q.CmpInt64(1<<60) > 0 || len(text) > 32, TooLarge)
	return reasons
}

// notAbove reports whether a soft threshold is not above the hard one of the same form.
func notAbove(soft, hard string) bool {
	if off(soft) || off(hard) {
		return false
	}
	softShare, softPercent := share(soft)
	hardShare, hardPercent := share(hard)
	if softPercent && hardPercent {
		return softShare <= hardShare
	}
	softAmount, softErr := resource.ParseQuantity(soft)
	hardAmount, hardErr := resource.ParseQuantity(hard)
	return softErr == nil && hardErr == nil && softAmount.Value() <= hardAmount.Value()
}

func off(text string) bool { return text == "0%" || text == "100%" }

// everything reports whether a minimum reclaim, together with a threshold, is the whole
// capacity or more.
func everything(reclaim, threshold string) bool {
	part, percent := share(reclaim)
	line, linePercent := share(threshold)
	if off(threshold) {
		line, linePercent = 0, true
	}
	return percent && linePercent && part+line >= 1
}

// GenerateThresholds returns the configuration of a seed: mostly common values, and some
// unusual ones.
func GenerateThresholds(seed uint64) *Thresholds {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x6772616d6d6172))} //nolint:gosec // repeatable, nothing is secret
	t := &Thresholds{Hard: map[string]string{}, Soft: map[string]string{}, Grace: map[string]string{}, Reclaim: map[string]string{}}
	for range 1 + g.IntN(3) {
		signal := g.signal()
		kinds := g.IntN(8)
		if kinds != 0 {
			t.Hard[signal] = g.value()
		}
		if kinds < 4 {
			t.Soft[signal] = g.value()
		}
		if (kinds < 4) != g.chance(5) {
			t.Grace[signal] = g.pick("30s", "1m30s", "0s", "0", "1h", "30", "-1s", "30mins", "")
		}
		if g.chance(40) {
			t.Reclaim[signal] = g.value()
		}
		if g.chance(3) {
			t.Reclaim[g.signal()] = g.value()
		}
	}
	return t
}

func (g *generator) signal() string {
	if g.chance(3) {
		return g.pick("Memory.available", "cpu.available", "", "memory.available ")
	}
	signals := []string{}
	for _, s := range pressure.Signals() {
		rare := strings.HasPrefix(s.String(), "containerfs.")
		if isKubelets(s) && (!rare || g.chance(20)) {
			signals = append(signals, s.String())
		}
	}
	return signals[g.IntN(len(signals))]
}

// value returns a threshold or a reclaim.
func (g *generator) value() string {
	switch g.IntN(10) {
	case 0, 1:
		return percentage(1 + g.IntN(999))
	case 2:
		return strconv.FormatFloat(g.Float64()*100, 'f', g.IntN(9), 64) + "%"
	case 3:
		return strconv.FormatInt(1+g.Int64N(1<<(1+g.IntN(60))), 10)
	case 4, 5:
		return fmt.Sprintf("%d%s", 1+g.IntN(2000), g.pick("Ki", "Mi", "Gi", "k", "M", "G", "e3", "E6", ""))
	case 6:
		return fmt.Sprintf("%d.%d%s", g.IntN(20), 1+g.IntN(999), g.pick("Mi", "Gi", "M", "G", "e3", "Ti"))
	default:
		return g.pick(slices.Sorted(maps.Keys(strange()))...)
	}
}

// strange are texts that one of the two might parse differently.
func strange() map[string]bool {
	texts := map[string]bool{}
	for _, text := range []string{
		"0%", "100%", "100.0%", "1e2%", "99.999999%", "99.9999999%", "0.0%", "-0%", "1e-60%", "NaN%", "nan%", "Inf%", "-Inf%", "+5%", "5.%",
		".5%", "0x10p-2%", "1_0%", "10%%", "10..5%", "%", " 5%", "5 %", "-5%", "101%", "200%", "5%5%", "0", "-1", "-100Mi", "",
		"100m", "1500m", "1u", "5n", "1.5", "0.5", "1e-3", "2.0", "1e3", "1E3", "1.3Gi", "0.1Ki", "1Ei", "2Ei", "1E", "8E", "1Zi", "100mi",
		"100MB", "1,5Gi", "1e18", "1e19", "1e+3", "+5", "00012", "1Gi ", "١", "0.000000000000000000000000000000001", "1000000000000000000000000000000001",
		"1.0000000000Gi", "1e300", "33.3333333%", "10.5%", "15%", "5%", "0.1%", "50%", "50.0%",
	} {
		texts[text] = true
	}
	return texts
}
