package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The right to evict is checked before an eviction is needed.
func TestFaultMissingBaseRightIsSaidAtTheStart(t *testing.T) {
	t.Parallel()
	for lacking, want := range map[string]string{
		"":              "",
		"pods/eviction": "create pods/eviction is missing",
		"pods":          "list pods and to watch pods is missing",
	} {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var review authorizationv1.SelfSubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || !strings.HasSuffix(r.URL.Path, "/selfsubjectaccessreviews") {
				t.Errorf("%s: %v", r.URL.Path, err)
			}
			review.Status.Allowed = askedOf(review.Spec.ResourceAttributes) != lacking
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(&review); err != nil {
				t.Error(err)
			}
		}))
		t.Cleanup(api.Close)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
		if err != nil {
			t.Fatal(err)
		}
		core, said := observer.New(zap.InfoLevel)
		d := &daemon{clients: &clients{reviews: client.AuthorizationV1().SelfSubjectAccessReviews()}, logger: zap.New(core)}
		d.checkBaseRights(t.Context())
		lines := said.All()
		if want == "" {
			if len(lines) != 0 {
				t.Errorf("with all rights it says %v", lines)
			}
			continue
		}
		if len(lines) != 1 {
			t.Errorf("without %s it says %v, want one line", lacking, lines)
			continue
		}
		detail := fmt.Sprint(lines[0].ContextMap()["detail"])
		if lines[0].Level != zap.WarnLevel || !strings.Contains(detail, want) || !strings.Contains(detail, "deploy/daemonset.yaml") {
			t.Errorf("without %s it says %v, want %q and what to apply", lacking, lines, want)
		}
	}
}
