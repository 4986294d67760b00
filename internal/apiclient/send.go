package apiclient

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// sendTimeout bounds a request of [Client.Send].
const sendTimeout = 10 * time.Second

// Send sends a request once, and returns the answer's text; with an error that is not what was asked for. The path
// may have a query; body is JSON, "" for none. It never tries again: a check that was not answered says so. The
// error has no URL, which helps no administrator.
func (c *Client) Send(ctx context.Context, method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	request := c.Verb(method).RequestURI(path).MaxRetries(0).SetHeader("Content-Type", "application/json").Body([]byte(body))
	if method == http.MethodPatch {
		request.SetHeader("Content-Type", string(types.MergePatchType))
	}
	result := request.Do(ctx)
	err := result.Error()
	if failed, wrapped := errors.AsType[*url.Error](err); wrapped {
		err = failed.Err
	}
	text, _ := result.Raw()
	return text, err
}
