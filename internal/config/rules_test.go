package config

import (
	"testing"

	"github.com/evictd/evictd/pkg/pressure"
)

func TestAnnotationNamespaces(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file      string
		namespace string
		want      bool
	}{
		{"", "shop", false},
		{"protect: {annotationNamespaces: []}", "shop", false},
		{"protect: {annotationNamespaces: null}", "shop", false},
		{"protect: {annotationNamespaces: [shop]}", "shop", true},
		{"protect: {annotationNamespaces: [shop]}", "shop-2", false},
		{"protect: {annotationNamespaces: [other, shop*]}", "shop-2", true},
		{"protect: {annotationNamespaces: ['*']}", "kube-system", true},
	} {
		counts := mustParse(t, head+test.file+"\n").Rules().Annotated
		if got := counts != nil && counts(test.namespace); got != test.want {
			t.Errorf("%q: the annotation counts in %s: %t, want %t", test.file, test.namespace, got, test.want)
		}
	}
}

func TestPinnedPodsByDefault(t *testing.T) {
	t.Parallel()
	if !mustParse(t, head).Rules().PinnedPods || mustParse(t, head+"protect: {pinnedPods: false}\n").Rules().PinnedPods {
		t.Error("pinned pods are protected unless the file says otherwise")
	}
}

func TestMinimumReclaimShare(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]pressure.Quantity{
		"":                                    pressure.Fraction(0.05),
		"limits: {minimumReclaimShare: 5%}":   pressure.Fraction(0.05),
		"limits: {minimumReclaimShare: null}": pressure.Fraction(0.05),
		"limits: {perOwnerPerHour: 1}":        pressure.Fraction(0.05),
		"limits: {minimumReclaimShare: 0%}":   pressure.Fraction(0),
		"limits: {minimumReclaimShare: 2.5%}": pressure.Fraction(0.025),
		"limits: {minimumReclaimShare: 100%}": pressure.Fraction(1),
	} {
		if got := mustParse(t, head+file+"\n").MinimumReclaimShare(); got != want {
			t.Errorf("%q: %v, want %v", file, got, want)
		}
	}
	if got := (&EvictdConfiguration{}).MinimumReclaimShare(); !got.IsZero() {
		t.Errorf("a configuration that was not validated has %v", got)
	}
}
