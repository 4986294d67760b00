package checks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// API is the API server.
type API struct {
	// Send sends a request with evictd's credentials, as the clients' Send. It is nil where Err is not.
	Send func(ctx context.Context, method, path, body string) ([]byte, error)
	// URL is the API server's.
	URL string
	// Err is why there is no client; otherwise nil. Then nothing else is set.
	Err error

	who account // once it is known
}

// request is a request with its path, which may have a query, and its body as JSON, "" for none.
type request struct{ method, path, body string }

// send sends a request.
func (a *API) send(ctx context.Context, r request) ([]byte, error) {
	if a.Err != nil {
		return nil, a.Err
	}
	return a.Send(ctx, r.method, r.path, r.body)
}

// ask sends a request and decodes the answer.
func (a *API) ask(ctx context.Context, r request, into any) error {
	text, err := a.send(ctx, r)
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
