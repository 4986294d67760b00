package evictdtest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/pkg/evict"
)

// Evictor returns an evictor with those credentials.
func Evictor(tb testing.TB, config *rest.Config) *evict.Evictor {
	tb.Helper()
	return evict.New(Client(tb, config).CoreV1().RESTClient(), time.Now)
}

// RequestFor is the request to evict a pod.
func RequestFor(pod *corev1.Pod) evict.Request {
	return evict.Request{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}
