package server

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/evictd/evictd/test/cluster"
)

// started is the control plane of the tests that need one. The first of them starts it.
var started struct {
	sync.Mutex
	cluster *cluster.Cluster
	// dir is its directory, bin that of its binaries.
	dir, bin string
}

func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil { // the paths of the package chart are those of its folder
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if started.cluster != nil {
		if err := started.cluster.Stop(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		_ = os.RemoveAll(started.dir)
	}
	os.Exit(code)
}

// apiServer is a real API server, with the administrator's credentials.
type apiServer struct {
	t       *testing.T
	config  *rest.Config
	client  kubernetes.Interface
	dynamic dynamic.Interface
	kinds   *restmapper.DeferredDiscoveryRESTMapper
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	config := rest.CopyConfig(startControlPlane(t).RESTConfig())
	config.QPS = -1
	s := &apiServer{t: t, config: config, client: clientFor(t, config)}
	var err error
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.kinds = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	return s
}

func startControlPlane(t *testing.T) *cluster.Cluster {
	t.Helper()
	started.Lock()
	defer started.Unlock()
	if started.cluster != nil {
		return started.cluster
	}
	ctx, bin := context.Background(), os.Getenv("EVICTD_CLUSTER_BIN")
	patience, err := cluster.Patience()
	if err != nil {
		t.Fatal(err)
	}
	if bin == "" {
		if bin, err = cluster.DefaultBinDir(); err != nil {
			t.Fatal(err)
		}
	}
	if err = cluster.Build(ctx, bin, false, os.Stderr); err != nil {
		t.Fatalf("building the control plane: %v", err)
	}
	if started.dir, err = os.MkdirTemp("", "evictd-chart-"); err != nil { //nolint:usetesting // it outlives the test
		t.Fatal(err)
	}
	if started.cluster, err = cluster.Start(ctx, cluster.Options{Dir: started.dir, BinDir: bin, Patience: patience, Log: os.Stderr}); err != nil {
		t.Fatal(err)
	}
	started.bin = bin
	return started.cluster
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (s *apiServer) namespace(name string) {
	s.t.Helper()
	_, err := s.client.CoreV1().Namespaces().Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
}

// resource returns the client for an object's kind.
func (s *apiServer) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	s.t.Helper()
	kind := object.GroupVersionKind()
	mapping, err := s.kinds.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
}

// apply applies an object on the server, as Helm does. Unknown fields are errors.
func (s *apiServer) apply(object map[string]any, dryRun ...string) error {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: object}
	text, err := json.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.resource(o).Patch(s.t.Context(), o.GetName(), "application/apply-patch+yaml", text,
		metav1.PatchOptions{FieldManager: "helm", Force: new(true), FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun})
	return err
}

// remove removes an object, after the test's own context has ended.
func (s *apiServer) remove(object map[string]any) {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: object}
	_ = s.resource(o).Delete(context.Background(), o.GetName(), metav1.DeleteOptions{})
}

// until calls a function until it returns no error.
func (s *apiServer) until(what string, try func(context.Context) error) {
	s.t.Helper()
	var last error
	atMost := cluster.Patiently(2 * time.Minute)
	err := wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, atMost, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.t.Fatalf("waited %v until %s: %v", atMost, what, last)
	}
}
