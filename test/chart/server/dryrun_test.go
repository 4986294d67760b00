package server

import (
	"maps"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/chart"
)

// A real API server takes every object of every variant, in a server-side dry run that refuses
// unknown fields: those of the chart and of kustomize, and whatever a value of the chart changes.
func TestAPIServerTakesEachVariant(t *testing.T) {
	t.Parallel()
	for _, name := range []string{chart.Namespace, "node-agents"} { // a dry run of a namespace leaves none
		namespace(t, name)
	}
	for _, v := range chart.Variants(t) {
		takes(t, v.Name+", chart", chart.Render(t, v.Namespace, v.Values).Objects)
		if v.Kustomization != "" {
			takes(t, v.Name+", kustomize", chart.Kustomize(t, v.Kustomization))
		}
	}
	shipped := chart.Render(t, chart.Namespace, "").Objects
	const account = "ServiceAccount evictd/evictd" // which the doctor's pod needs
	if err := apply(t, chart.Objects{account: shipped[account]}); err != nil {
		t.Fatal(err)
	}
	takes(t, "helm test", chart.Render(t, chart.Namespace, "").Tests)
	for _, r := range chart.Rows(t) {
		changed := chart.Objects{}
		for key, object := range chart.Render(t, chart.Namespace, r.Given+"\n"+r.Set).Objects {
			if len(chart.Objects{key: shipped[key]}.Changes(chart.Objects{key: object})) > 0 {
				changed[key] = object
			}
		}
		takes(t, r.Set, changed)
	}
}

// kubectl has a kustomize of its own, of another version. It takes each kustomization, and
// moves the policies too.
func TestKubectlTakesEachKustomization(t *testing.T) {
	t.Parallel()
	kubectl := func(arguments ...string) string {
		output, err := started.Kubectl(t.Context(), "", arguments...)
		if err != nil {
			t.Error(err)
		}
		return output
	}
	const another = "by-kubectl"
	namespace(t, another)
	for _, v := range chart.Variants(t) {
		if v.Kustomization == "" || strings.Contains(v.Kustomization, ".patch.yaml") {
			continue // kubectl reads no file outside of the kustomization's directory
		}
		text := v.Kustomization
		if v.Namespace == chart.Namespace {
			text += "\nnamespace: " + another + "\ntransformers: [DEPLOY/transformers/namespace]"
		} else {
			text = strings.ReplaceAll(text, v.Namespace, another)
		}
		dir := chart.Kustomization(t, text)
		kubectl("apply", "--dry-run=server", "-k", dir)
		text = kubectl("kustomize", dir)
		if here, there := strings.Count(text, "'system:serviceaccount:"+another+":evictd'"), strings.Count(text, ":evictd:evictd'"); here < 4 || there > 0 {
			t.Errorf("%s: %d policies of the account, and %d of one that is not there", v.Name, here, there)
		}
	}
}

// takes fails the test where the API server refuses one of the objects.
func takes(t *testing.T, what string, all chart.Objects) {
	t.Helper()
	maps.DeleteFunc(all, func(_ string, object map[string]any) bool {
		return object["apiVersion"] == "monitoring.coreos.com/v1" // the package chart holds them against the Prometheus Operator's types
	})
	if err := apply(t, all, "--dry-run=server"); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
