package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
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
	const configuration = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE}
webhooks:
- name: evictions.example.com
  clientConfig: {url: "URL", caBundle: AUTHORITY}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: ["*"], resources: [pods/eviction]}]
  sideEffects: None
  failurePolicy: Fail
  timeoutSeconds: 30
  admissionReviewVersions: [v1]
`
	authority := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	made := strings.NewReplacer("NAMESPACE", w.Namespace, "URL", server.URL, "AUTHORITY", authority).Replace(configuration)
	w.Kubectl(w.T.Context(), made, "create", "-f", "-")
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
