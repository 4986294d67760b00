package api

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/pkg/evict"
	"github.com/evictd/evictd/test/internal/evictdtest"
)

// webhook is a third party's admission webhook on the evictions of one namespace. It allows
// all of them by default.
type webhook struct {
	server *httptest.Server

	mu      sync.Mutex
	denial  *metav1.Status  // nil allows
	broken  bool            // its response is not a review
	allowed map[string]bool // pods that are exempt from the denial or the fault
	asked   map[string]int  // number of requests, by pod
	held    map[string]chan struct{}
}

// newWebhook registers a webhook, until the end of the test, and waits until the API server
// calls it.
func newWebhook(w *evictdtest.World) *webhook {
	w.T.Helper()
	h := &webhook{asked: map[string]int{}}
	h.server = httptest.NewTLSServer(h)
	w.T.Cleanup(h.server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw})
	none, fail, url := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, h.server.URL
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
	w.Until("the API server asks the webhook", func(ctx context.Context) bool {
		evictdtest.Evictor(w.T, evictdtest.Unlimited()).Evict(ctx, evict.Request{Namespace: w.Namespace, Name: "probe", UID: "x", DryRun: true})
		return h.count("probe") > 0
	})
	return h
}

// deny denies every eviction except those of the named pods, with a code and a message.
func (h *webhook) deny(code int32, message string, but ...string) {
	h.answer(&metav1.Status{Code: code, Message: message}, false, but)
}

// fail responds with a fault of its own, except for the named pods.
func (h *webhook) fail(but ...string) { h.answer(nil, true, but) }

// allow allows every eviction.
func (h *webhook) allow() { h.answer(nil, false, nil) }

func (h *webhook) answer(denial *metav1.Status, broken bool, but []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denial, h.broken, h.allowed = denial, broken, map[string]bool{}
	for _, pod := range but {
		h.allowed[pod] = true
	}
}

// hold delays the response for a pod, until release or the end of the test.
func (h *webhook) hold(t *testing.T, pod string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = map[string]chan struct{}{pod: make(chan struct{})}
	t.Cleanup(h.release)
}

// release sends the delayed responses.
func (h *webhook) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, waits := range h.held {
		close(waits)
	}
	h.held = nil
}

// count returns how often the webhook was called for a pod.
func (h *webhook) count(pod string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked[pod]
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	pod := review.Request.Name
	h.mu.Lock()
	h.asked[pod]++
	denial, broken, waits := h.denial, h.broken, h.held[pod]
	if h.allowed[pod] {
		denial, broken = nil, false
	}
	h.mu.Unlock()
	if waits != nil {
		<-waits
	}
	if broken {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: denial == nil, Result: denial}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
