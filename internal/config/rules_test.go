package config

import (
	"testing"
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
