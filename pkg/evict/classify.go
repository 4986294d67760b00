package evict

import (
	"errors"
	"net/http"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Texts of the API server that nothing else in the answer tells apart
// (k8s.io/kubernetes pkg/registry/core/pod/storage/eviction.go and
// apiserver/pkg/admission/plugin/webhook).
const (
	textSeveralBudgets = "more than one PodDisruptionBudget"
	textUID            = "UID"
	textWebhookFailed  = "failed calling webhook"
	textBudgetPrefix   = "The disruption budget "
	// The authorizer's own, before any admission (apiserver/pkg/endpoints/handlers/
	// responsewriters/errors.go); an admission plugin's text has no such clause.
	textNoRight       = `cannot create resource "pods/eviction"`
	textNoRightDelete = `cannot delete resource "pods"`
)

// Kinds in the details of an answer.
const (
	kindPod     = "pods"
	groupPolicy = "policy"
)

// classify names the outcome of a request, which is accepted when there is no error. It
// reads causes and details, not status codes alone: four different things answer 429.
func classify(err error, accepted Outcome) Result {
	if err == nil {
		return Result{Outcome: accepted}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Result{Outcome: Unconfirmed, Message: err.Error()}
	}
	s := status.Status()
	return Result{
		Outcome:    outcomeOf(&s, err),
		Message:    messageOf(&s),
		Budget:     budgetOf(&s),
		NoRight:    s.Code == http.StatusForbidden && lacksRight(s.Message),
		RetryAfter: retryAfterOf(&s),
	}
}

func lacksRight(message string) bool {
	return strings.Contains(message, textNoRight) || strings.Contains(message, textNoRightDelete)
}

func outcomeOf(s *metav1.Status, err error) Outcome {
	switch s.Code {
	case http.StatusNotFound:
		return outcomeOfNotFound(err)
	case http.StatusConflict:
		return outcomeOfConflict(s)
	case http.StatusTooManyRequests:
		return outcomeOfTooMany(s, err)
	case http.StatusForbidden:
		if s.Details != nil && s.Details.Group == groupPolicy {
			return BlockedByBudget // negative disruptionsAllowed, or a full disruptedPods map
		}
		return Denied
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Denied
	case http.StatusInternalServerError:
		return outcomeOfInternal(s)
	default:
		return Unconfirmed // 401, 408, 502, 503, 504 and whatever a proxy invents
	}
}

// outcomeOfNotFound tells a pod that has gone from a budget that vanished while
// the server was updating it.
func outcomeOfNotFound(err error) Outcome {
	if isPodNotFound(err) {
		return Gone
	}
	return BudgetPending
}

// outcomeOfConflict tells a failed UID precondition, which means that the pod
// which was judged has gone, from a budget whose status kept changing.
func outcomeOfConflict(s *metav1.Status) Outcome {
	if strings.Contains(s.Message, textUID) {
		return Gone
	}
	return BudgetPending
}

func outcomeOfTooMany(s *metav1.Status, err error) Outcome {
	if !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		return Throttled
	}
	if retryAfterOf(s) > 0 {
		return BudgetPending
	}
	return BlockedByBudget
}

func outcomeOfInternal(s *metav1.Status) Outcome {
	switch {
	case strings.Contains(s.Message, textSeveralBudgets):
		return Misconfigured
	case strings.Contains(s.Message, textWebhookFailed):
		return Denied // admission comes before the eviction: nothing has happened
	default:
		return Unconfirmed
	}
}

// isPodNotFound reports whether the error says that the pod is not there. A 404
// that is no Status of the API server, but a proxy's page for example, proves
// nothing: client-go marks it with a cause of its own.
func isPodNotFound(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return false
	}
	s := status.Status()
	return s.Code == http.StatusNotFound && s.Details != nil && s.Details.Kind == kindPod
}

// messageOf joins the server's message with its causes, which say what the
// message does not: which budget, and how many pods it needs.
func messageOf(s *metav1.Status) string {
	message := s.Message
	if s.Details == nil {
		return message
	}
	for _, cause := range s.Details.Causes {
		if cause.Message != "" && !strings.Contains(message, cause.Message) {
			message += " " + cause.Message
		}
	}
	return message
}

// budgetOf returns the name of the budget that refused, which the server puts
// into the cause's text and nowhere else.
func budgetOf(s *metav1.Status) string {
	if s.Details == nil {
		return ""
	}
	for _, cause := range s.Details.Causes {
		if rest, found := strings.CutPrefix(cause.Message, textBudgetPrefix); found {
			name, _, _ := strings.Cut(rest, " ")
			return name
		}
	}
	return ""
}

func retryAfterOf(s *metav1.Status) time.Duration {
	if s.Details == nil {
		return 0
	}
	return time.Duration(s.Details.RetryAfterSeconds) * time.Second
}
