package api

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// newWebhook registers a third party's admission webhook on the evictions of the namespace, until the end of
// the test, and waits until the API server's answers have the text. The webhook denies all of them; where
// there is no denial, its answer is no review.
func newWebhook(w *evictdtest.World, denial *metav1.Status, text string) *httptest.Server {
	w.T.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil || denial == nil {
			http.Error(rw, "no review", http.StatusInternalServerError)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: denial}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(&review) // the API server says what is missing
	}))
	w.T.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	none, fail, url := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, server.URL
	_, err := w.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(w.T.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.Namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "evictions.example.com", SideEffects: &none, FailurePolicy: &fail, TimeoutSeconds: new(int32(30)), AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": w.Namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"*"}, Resources: []string{"pods/eviction"}},
			}},
		}},
	}, metav1.CreateOptions{})
	w.Must(err)
	w.Undo(func(ctx context.Context) { w.Kubectl(ctx, "", "delete", "validatingwebhookconfiguration", w.Namespace) })
	untilAnswered(w, text)
	return server
}

// untilAnswered waits until the API server answers an eviction in the namespace with the text: webhooks and
// policies are in effect a moment after they are made.
func untilAnswered(w *evictdtest.World, text string) {
	w.T.Helper()
	probe := evict.Request{Namespace: w.Namespace, Name: "probe", UID: "x", DryRun: true}
	w.Until("evictions are answered with "+text, func(ctx context.Context) bool {
		return strings.Contains(evictdtest.Evictor(w.T, evictdtest.Unlimited()).Evict(ctx, probe).Message, text)
	})
}
