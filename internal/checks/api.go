package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// API is the API server.
type API struct {
	// Client sends requests with evictd's credentials, with a time limit for each; nil where Err is not.
	Client *http.Client
	// URL is the API server's.
	URL *url.URL
	// Explain says why a request failed that needs a right, in RBAC's terms, and how to fix it.
	Explain func(err error, right string) error
	// Err is why there is no client; otherwise nil. Then nothing else is set.
	Err error

	who  account   // once it is known
	date time.Time // of its answer to the first check; zero where that had none
}

// request is a request with its body, "" for none.
type request struct{ method, path, body string }

// send sends a request once: a check that was not answered says so.
func (a *API) send(ctx context.Context, r request) (header http.Header, text []byte, err error) {
	const longest = 1 << 20
	if a.Err != nil {
		return nil, nil, a.Err
	}
	path, query, _ := strings.Cut(r.path, "?")
	to := a.URL.JoinPath(path)
	to.RawQuery = query
	request, err := http.NewRequestWithContext(ctx, r.method, to.String(), strings.NewReader(r.body))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if r.method == http.MethodPatch {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := a.Client.Do(request)
	if err != nil {
		if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
			err = failed.Err // the URL helps no administrator
		}
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if text, err = io.ReadAll(io.LimitReader(response.Body, longest)); err != nil {
		return nil, nil, err
	}
	var status metav1.Status
	switch {
	case response.StatusCode < http.StatusMultipleChoices:
		return response.Header, text, nil
	case json.Unmarshal(text, &status) == nil && status.Kind == "Status":
		return nil, nil, apierrors.FromObject(&status)
	default:
		return nil, nil, apierrors.NewGenericServerResponse(response.StatusCode, r.method, schema.GroupResource{}, "", string(text), 0, true)
	}
}

// ask sends a request and decodes the answer.
func (a *API) ask(ctx context.Context, r request, into any) error {
	_, text, err := a.send(ctx, r)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// account is whose credentials these are.
type account struct {
	name string
	node string // in the token's claims; "" where there is none
}

func (a account) service() bool { return strings.HasPrefix(a.name, "system:serviceaccount:") }

// account asks the API server, until it has answered once.
func (a *API) account(ctx context.Context) (account, error) {
	if a.who.name != "" {
		return a.who, nil
	}
	var review struct {
		Status struct {
			UserInfo struct {
				Username string
				Extra    map[string][]string
			}
		}
	}
	err := a.ask(ctx, request{
		http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
	}, &review)
	if err != nil {
		return account{}, fmt.Errorf("asking whose credentials these are: %w", err)
	}
	a.who.name = review.Status.UserInfo.Username
	if claim := review.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"]; len(claim) > 0 {
		a.who.node = claim[0]
	}
	return a.who, nil
}

// confinable returns an error unless the account is one that the policies may confine.
func (a *API) confinable(ctx context.Context) error {
	who, err := a.account(ctx)
	if err == nil && !who.service() {
		err = fmt.Errorf("%s is no service account, and the policies do not confine it", who.name)
	}
	return err
}
