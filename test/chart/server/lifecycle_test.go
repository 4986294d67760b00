package server

import (
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/evictd/evictd/test/chart"
)

// lived is a release on a real API server.
type lived struct {
	*apiServer
	in   string
	helm *action.Configuration
}

func newLived(t *testing.T, in string) *lived {
	t.Helper()
	s := newAPIServer(t)
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig := started.cluster.Kubeconfig()
	flags.KubeConfig, flags.Namespace = &kubeconfig, &in
	l := &lived{apiServer: s, in: in, helm: action.NewConfiguration()}
	l.helm.SetLogger(slog.NewTextHandler(io.Discard, nil))
	l.must(l.helm.Init(flags, in, ""))
	return l
}

func (l *lived) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lived) install() {
	l.t.Helper()
	install := action.NewInstall(l.helm)
	install.ReleaseName, install.Namespace, install.CreateNamespace = chart.Release, l.in, true
	install.WaitStrategy = kube.HookOnlyStrategy
	_, err := install.Run(chart.Load(l.t), nil)
	l.must(err)
	l.t.Cleanup(func() {
		uninstall := action.NewUninstall(l.helm)
		uninstall.WaitStrategy = kube.HookOnlyStrategy
		_, err := uninstall.Run(chart.Release)
		l.must(err)
	})
}

// upgrade is `helm upgrade --reset-then-reuse-values`.
func (l *lived) upgrade(text string) error {
	l.t.Helper()
	values, err := loader.LoadValues(strings.NewReader(text))
	l.must(err)
	upgrade := action.NewUpgrade(l.helm)
	upgrade.Namespace, upgrade.ResetThenReuseValues, upgrade.WaitStrategy = l.in, true, kube.HookOnlyStrategy
	_, err = upgrade.Run(chart.Release, chart.Load(l.t), values)
	return err
}

func (l *lived) configuration() string {
	l.t.Helper()
	file, err := l.client.CoreV1().ConfigMaps(l.in).Get(l.t.Context(), "evictd", metav1.GetOptions{})
	l.must(err)
	return file.Data["evictd.yaml"]
}

// edit changes the configuration as `kubectl edit` does.
func (l *lived) edit(old, text string) {
	l.t.Helper()
	file, err := l.client.CoreV1().ConfigMaps(l.in).Get(l.t.Context(), "evictd", metav1.GetOptions{})
	l.must(err)
	file.Data["evictd.yaml"] = strings.ReplaceAll(file.Data["evictd.yaml"], old, text)
	_, err = l.client.CoreV1().ConfigMaps(l.in).Update(l.t.Context(), file, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	l.must(err)
}

// staysStopped stops evictd by an edit. An upgrade with other values does not let it act again,
// and one with the same is possible.
func (l *lived) staysStopped() {
	l.t.Helper()
	l.edit("dryRun: false", "dryRun: true")
	err := l.upgrade("extraArgs: []")
	if err == nil || !strings.Contains(err.Error(), `conflict with "kubectl-edit"`) || !strings.Contains(l.configuration(), "dryRun: true") {
		l.t.Errorf("an upgrade after the edit: %v, and\n%s", err, l.configuration())
	}
	l.must(l.upgrade("config: {dryRun: true}"))
}

// there returns which of the objects the API server has.
func (l *lived) there(all chart.Objects) []string {
	l.t.Helper()
	var found []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		object := &unstructured.Unstructured{Object: all[key]}
		switch _, err := l.resource(object).Get(l.t.Context(), object.GetName(), metav1.GetOptions{}); {
		case err == nil:
			found = append(found, key)
		case !apierrors.IsNotFound(err):
			l.t.Fatal(err)
		}
	}
	return found
}

// A release by Helm's own library on a real API server: all objects are there, those of an opt-in
// come with an upgrade and go with a rollback, and an edit that stops evictd lasts. What such steps do
// to running pods, and that an uninstalled release leaves nothing, is shown by TestHelmOnARealNode in
// test/e2e.
func TestAnEditThatStopsEvictdOutlivesAnUpgrade(t *testing.T) {
	l := newLived(t, "lived") // not parallel: the names of its objects are the cluster's
	l.install()
	shipped := chart.Render(t, l.in, "").Objects
	if got := l.there(shipped); len(got) != len(shipped) {
		t.Fatalf("installed %q of %d objects", got, len(shipped))
	}
	first := l.configuration()
	l.must(l.upgrade("{config: {dryRun: false}, bestEffort: {enabled: true}}"))
	more := chart.Render(t, l.in, "bestEffort: {enabled: true}").Objects
	if got := l.there(more); len(got) != len(more) || !strings.Contains(l.configuration(), "dryRun: false") {
		t.Errorf("with bestEffort: %q of %d objects, and\n%s", got, len(more), l.configuration())
	}
	l.staysStopped()

	rollback := action.NewRollback(l.helm)
	rollback.ForceConflicts = true // because of the edit
	rollback.Version, rollback.WaitStrategy, rollback.ServerSideApply = 1, kube.HookOnlyStrategy, "auto"
	l.must(rollback.Run(chart.Release))
	if got := l.there(more); len(got) != len(shipped) || l.configuration() != first {
		t.Errorf("after the rollback: %q, and\n%s", got, l.configuration())
	}
}
