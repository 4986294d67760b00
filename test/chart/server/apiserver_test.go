package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/evictd/evictd/test/cluster"
)

// started is the control plane of the tests, and bin the directory of its binaries.
var (
	started *cluster.Cluster
	bin     = os.Getenv("EVICTD_CLUSTER_BIN")
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err = os.Chdir(".."); err != nil { // the paths of the package chart are those of its folder
		return 1, err
	}
	dir, err := os.MkdirTemp("", "evictd-chart-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	started, err = cluster.Start(context.Background(), cluster.Options{
		Dir: filepath.Join(dir, "cluster"), BinDir: bin, Log: os.Stderr,
	})
	if err != nil {
		return 1, err
	}
	code = m.Run()
	return code, started.Stop(context.Background())
}

// apiServer is a real API server, with the administrator's credentials.
type apiServer struct {
	t       *testing.T
	dynamic dynamic.Interface
	kinds   *restmapper.DeferredDiscoveryRESTMapper
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	client, err := dynamic.NewForConfig(started.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(started.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &apiServer{t, client, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
}

func (s *apiServer) namespace(name string) {
	s.t.Helper()
	object := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	if _, err := s.dynamic.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).
		Create(s.t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// apply applies an object on the server, as Helm does. Unknown fields are errors.
func (s *apiServer) apply(object map[string]any, dryRun ...string) error {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: object}
	text, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	kind := o.GroupVersionKind()
	mapping, err := s.kinds.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()).Patch(s.t.Context(), o.GetName(), "application/apply-patch+yaml", text,
		metav1.PatchOptions{FieldManager: "helm", Force: new(true), FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
	return err
}
