package evict_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
)

// A PodDisruptionBudget's refusal is an outcome: the next candidate is tried. A server of
// the example replaces the cluster.
func ExampleEvictor_Evict() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "TooManyRequests", "code": 429,
			"message": "Cannot evict pod as it would violate the pod's disruption budget.",
			"details": {"causes": [{"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods and has 2 currently"}]}}`)
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		fmt.Println(err)
		return
	}

	evictor := evict.New(client.CoreV1().RESTClient(), time.Now)
	result := evictor.Evict(context.Background(), evict.Request{
		Namespace: "shop", Name: "web-1", UID: "1b7c", // the judged pod, not another one of the same name
	})
	fmt.Println(result.Outcome, "by", result.Budget)
	fmt.Println(result.TriesNext())
	// Output:
	// BlockedByBudget by web
	// true
}
