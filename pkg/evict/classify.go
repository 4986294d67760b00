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

// Texts of the API server that are the only distinction in its response (k8s.io/kubernetes
// pkg/registry/core/pod/storage/eviction.go and apiserver/pkg/admission/plugin/webhook).
const (
	textSeveralBudgets = "more than one PodDisruptionBudget"
	textTimedOut       = "timed out" // etcd's client
	textUID            = "UID"
	textWebhookFailed  = "failed calling webhook"
	// Denials by admission, with any status code that its author chose: a webhook's, and a
	// ValidatingAdmissionPolicy's (apiserver/pkg/admission/plugin/policy/validating).
	textWebhookPrefix = "admission webhook "
	textWebhookDenied = " denied the request"
	textPolicyDenied  = " denied request: "
	textBudgetPrefix  = "The disruption budget "
	// A server that is starting: admission plugins without the objects that they watch, and
	// a ValidatingAdmissionPolicy without its parameters (apiserver/pkg/admission/plugin:
	// webhook/generic/webhook.go, policy/generic/plugin.go and policy_dispatcher.go).
	textNotReady  = ": not yet ready to handle request"
	textNotSynced = " not yet synced to use for admission"
	// The authorizer's texts, before any admission (apiserver/pkg/endpoints/handlers/
	// responsewriters/errors.go); an admission plugin's text has no such clause.
	textMayNotEvict = `cannot create resource "pods/eviction"`
	textNoRight     = `cannot delete resource "pods"`
)

// Kinds in the details of a response. The eviction's own conflicts give the pods' kind in
// place of their resource.
const (
	kindPods    = "pods"
	kindPod     = "Pod"
	kindBudgets = "poddisruptionbudgets"
	groupPolicy = "policy"
)

// longestMessage is how many bytes of a response's text are kept: a policy engine may list
// every violation, and each decision keeps the responses to all its requests.
const longestMessage = 1 << 10

// bounded cuts a text to longestMessage, between two runes.
func bounded(text string) string {
	const mark = "…"
	if len(text) <= longestMessage {
		return text
	}
	return strings.ToValidUTF8(text[:longestMessage-len(mark)], "") + mark
}

// IsNotFound reports whether the API server says that the requested object does not exist. A
// 404 that is not a Status of the API server, such as a proxy's error page, proves nothing.
func IsNotFound(err error) bool { return apierrors.IsNotFound(err) && !isForeign(err) }

// mayBeDone reports whether a request that failed may have been carried out: there was no
// response, or one that is not the API server's rejection. Its rejection of too many
// requests may be an error page (see isForeign).
func mayBeDone(err error) bool {
	s, answered := statusOf(err)
	return !answered || s.Code >= http.StatusInternalServerError || isForeign(err) && s.Code != http.StatusTooManyRequests
}

// statusOf returns the response to a request that failed, with details; false where there was none.
func statusOf(err error) (metav1.Status, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return metav1.Status{}, false
	}
	s := answer.Status()
	if s.Details == nil {
		s.Details = &metav1.StatusDetails{}
	}
	return s, true
}

// classify returns the outcome of a request; without an error that is accepted. It uses
// causes and details, not only status codes: four different conditions return 429.
func classify(err error, accepted Outcome) Result {
	if err == nil {
		return Result{Outcome: accepted}
	}
	s, answered := statusOf(err)
	if !answered {
		return Result{Outcome: Unconfirmed, NoResponse: true, Pending: true, Message: bounded(err.Error())}
	}
	result := Result{
		Outcome:    outcomeOf(&s, err),
		Message:    bounded(messageOf(&s)),
		RetryAfter: time.Duration(s.Details.RetryAfterSeconds) * time.Second,
	}
	result.Pending = result.Outcome == Unconfirmed && gaveUp(&s)
	if result.Outcome.OfBudget() {
		result.Budget = budgetOf(&s)
	}
	result.PodAlone = result.Outcome == Throttled && strings.Contains(s.Message, textWebhookFailed)
	result.NoRight = result.Outcome == Denied && s.Code == http.StatusForbidden && strings.Contains(s.Message, textNoRight)
	return result
}

// gaveUp reports whether a server stopped waiting for the result of the request: the API
// server itself (504 after 34 s), a proxy in front of it, or the API server for etcd.
func gaveUp(s *metav1.Status) bool {
	return s.Code == http.StatusBadGateway || s.Code == http.StatusGatewayTimeout || strings.Contains(s.Message, textTimedOut)
}

func outcomeOf(s *metav1.Status, err error) Outcome {
	switch {
	case isForeign(err) && s.Code != http.StatusTooManyRequests:
		return Unconfirmed
	case isOfServer(s):
		return Throttled
	case isDenial(s.Message) && s.Code == http.StatusTooManyRequests:
		return Evacuating
	case isDenial(s.Message):
		return Denied
	case strings.Contains(s.Message, textWebhookFailed): // one that fails closed could not be called
		return Throttled
	default:
		return outcomeOfCode(s, err)
	}
}

// isForeign reports whether the response is not a Status of the API server, but for example
// a proxy's error page: client-go marks it with its own cause. Only a 429 has a meaning
// then, because the API server's own flow control also writes it as a page.
func isForeign(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isOfServer reports whether the refusal concerns the API server or evictd's account, and no pod: another would be
// refused too. A server that is starting has not yet read the objects that its admission needs; until it has read the
// roles, its authorizer denies what it will allow within seconds, by the text for a right that is missing. A policy's
// own text is inside its denial, and a webhook's denial is the webhook's own.
func isOfServer(s *metav1.Status) bool {
	return s.Code == http.StatusForbidden && !strings.HasPrefix(s.Message, textWebhookPrefix) &&
		(strings.HasSuffix(s.Message, textNotReady) || strings.Contains(s.Message, textNotSynced) || strings.Contains(s.Message, textMayNotEvict))
}

// isDenial reports whether admission denied the request. The webhook chooses the code, which may be
// that of a failing server, 500 or 503; but admission precedes the eviction, and only the pods that
// the webhook matches are affected. 429 is what webhooks answer that begin to move the pod away
// because of the request (kubevirt.io/kubevirt pkg/virt-api/webhooks/validating-webhook/admitters,
// PodEvictionAdmitter), and what kubectl drain and the descheduler take for "later".
func isDenial(message string) bool {
	return strings.HasPrefix(message, textWebhookPrefix) && strings.Contains(message, textWebhookDenied) ||
		strings.Contains(message, textPolicyDenied)
}

func outcomeOfCode(s *metav1.Status, err error) Outcome {
	switch s.Code {
	case http.StatusNotFound, http.StatusConflict:
		return outcomeOfAbsent(s)
	case http.StatusTooManyRequests:
		if !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
			return Throttled
		}
		if s.Details.RetryAfterSeconds > 0 {
			return BudgetPending
		}
		return BlockedByBudget
	case http.StatusForbidden:
		if isBudget(s) {
			return BlockedByBudget // negative disruptionsAllowed, or a full disruptedPods map
		}
		return Denied
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return Denied
	case http.StatusInternalServerError:
		if strings.Contains(s.Message, textSeveralBudgets) {
			return Misconfigured
		}
	}
	return Unconfirmed // also 401, 408, 502, 503, 504 and other codes of a proxy
}

// outcomeOfAbsent distinguishes a pod that does not exist any more, by its name or by the
// requested UID, from a budget that was deleted or kept changing while the server updated
// it. The read that follows may resolve the other cases.
func outcomeOfAbsent(s *metav1.Status) Outcome {
	switch {
	case isBudget(s):
		return BudgetPending
	case isPod(s) && (s.Code == http.StatusNotFound || strings.Contains(s.Message, textUID)):
		return Gone
	default:
		return Unconfirmed
	}
}

func isBudget(s *metav1.Status) bool { return s.Details.Group == groupPolicy }

func isPod(s *metav1.Status) bool {
	return s.Details.Group == "" && (s.Details.Kind == kindPods || s.Details.Kind == kindPod)
}

// messageOf joins the server's message with its causes, which add the name of the budget and
// how many pods it needs.
func messageOf(s *metav1.Status) string {
	message := s.Message
	for _, cause := range s.Details.Causes {
		if cause.Message != "" && !strings.Contains(message, cause.Message) {
			message += " " + cause.Message
		}
	}
	return message
}

// budgetOf returns the name of the budget that refused, which the server puts only into the
// cause's text.
func budgetOf(s *metav1.Status) string {
	for _, cause := range s.Details.Causes {
		if rest, found := strings.CutPrefix(cause.Message, textBudgetPrefix); found {
			name, _, _ := strings.Cut(rest, " ")
			return name
		}
	}
	return ""
}
