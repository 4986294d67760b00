package chart

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// A real API server takes every object of every variant, in a server-side dry run that refuses
// unknown fields: those of the chart and of kustomize, and whatever a value of the chart changes.
func TestAPIServerTakesEachVariant(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	for _, name := range []string{namespace, "node-agents"} { // a dry run of a namespace leaves none
		s.namespace(name)
	}
	for _, v := range variants() {
		s.takes(v.name+", chart", render(t, v.namespace, v.values).objects)
		s.takes(v.name+", kustomize", kustomize(t, v.kustomization))
	}
	shipped := render(t, namespace, "").objects
	s.applyKinds(shipped, "ServiceAccount") // which the doctor's pod needs
	s.takes("helm test", render(t, namespace, "").tests)
	for _, r := range rows(t) {
		changed := objects{}
		for key, object := range render(t, namespace, r.Given+"\n"+r.Set).objects {
			if len(objects{key: shipped[key]}.changes(objects{key: object})) > 0 {
				changed[key] = object
			}
		}
		s.takes(r.Set, changed)
	}
}

// kubectl has a kustomize of its own, of another version. It takes each kustomization, and
// moves the policies too.
func TestKubectlTakesEachKustomization(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	kubectl := func(arguments ...string) string {
		command := exec.CommandContext(t.Context(), filepath.Join(started.bin, "kubectl"), append(arguments, "--kubeconfig", started.cluster.Kubeconfig())...)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Errorf("kubectl %s: %v: %s", strings.Join(arguments, " "), err, output)
		}
		return string(output)
	}
	const another = "by-kubectl"
	s.namespace(another)
	for _, v := range variants() {
		if strings.Contains(v.kustomization, ".patch.yaml") {
			continue // kubectl reads no file outside of the kustomization's directory
		}
		text := v.kustomization
		if v.namespace == namespace {
			text += "\nnamespace: " + another + "\ntransformers: [DEPLOY/transformers/namespace]"
		} else {
			text = strings.ReplaceAll(text, v.namespace, another)
		}
		dir := kustomization(t, text)
		kubectl("apply", "--dry-run=server", "-k", dir)
		text = kubectl("kustomize", dir)
		if here, there := strings.Count(text, "'system:serviceaccount:"+another+":evictd'"), strings.Count(text, ":evictd:evictd'"); here < 4 || there > 0 {
			t.Errorf("%s: %d policies of the account, and %d of one that is not there", v.name, here, there)
		}
	}
}

// takes fails the test where the API server refuses one of the objects.
func (s *apiServer) takes(what string, all objects) {
	s.t.Helper()
	for key, object := range all {
		if object["kind"] == "PodMonitor" {
			continue // TestPodMonitorIsOne
		}
		if err := s.apply(object, metav1.DryRunAll); err != nil {
			s.t.Errorf("%s: %s: %v", what, key, err)
		}
	}
}

// The API server refuses what is wrong: otherwise its consent would prove nothing.
func TestAPIServerRefusesWhatIsWrong(t *testing.T) {
	t.Parallel()
	s := newAPIServer(t)
	for values, want := range map[string]string{
		"resources: {limits: {cpu: 10m}}":      "must be less than or equal to cpu limit",
		"tolerations: [{operators: Exists}]":   ".spec.template.spec.tolerations[0].operators",
		"podLabels: {team: 'two words'}":       "a valid label must be",
		"resources: {requests: {memory: 1GB}}": "quantities must match",
	} {
		err := s.apply(render(t, "default", values).objects["DaemonSet default/evictd"], metav1.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

// The PodMonitor has the fields of the Prometheus Operator's own type, and selects the metrics
// port of evictd's pods.
func TestPodMonitorIsOne(t *testing.T) {
	t.Parallel()
	for _, r := range rows(t) {
		if !strings.HasPrefix(r.Value, "podMonitor.") {
			continue
		}
		all := render(t, namespace, r.Given+"\n"+r.Set).objects
		text, err := yaml.Marshal(all["PodMonitor evictd/evictd"])
		if err != nil {
			t.Fatal(err)
		}
		var monitor monitoringv1.PodMonitor
		if err := yaml.UnmarshalStrict(text, &monitor); err != nil {
			t.Errorf("%s: %v", r.Set, err)
			continue
		}
		pod := fields(all["DaemonSet evictd/evictd"])
		endpoint := monitor.Spec.PodMetricsEndpoints[0]
		if label := `"` + monitor.Spec.Selector.MatchLabels["app.kubernetes.io/name"] + `"`; endpoint.Port == nil ||
			label != pod["spec.template.metadata.labels.app.kubernetes.io/name"] || pod["spec.template.spec.containers[evictd].ports["+*endpoint.Port+"].name"] == "" {
			t.Errorf("%s: the PodMonitor selects other pods or another port: %s", r.Set, text)
		}
	}
}
