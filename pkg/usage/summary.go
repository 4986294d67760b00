package usage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// summaryMax is the size limit of a response. 110 pods with three containers take about half
// a MiB.
const summaryMax = 32 << 20

// FetchSummary reads a kubelet's Summary, for example at https://<node>:10250/stats/summary.
// The client authenticates; ctx bounds the call. Anything but a complete Summary in JSON of
// at most 32 MiB is an error.
func FetchSummary(ctx context.Context, client *http.Client, url string) (*statsapi.Summary, error) {
	summary := &statsapi.Summary{}
	body, err := fetch(ctx, client, url)
	if err == nil {
		err = json.Unmarshal(body, summary)
	}
	if err == nil && summary.Node.NodeName == "" { // other JSON
		err = errors.New("it names no node, so it is no summary")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubelet's summary: %w", err)
	}
	return summary, nil
}

func fetch(ctx context.Context, client *http.Client, url string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was only read
	if response.StatusCode != http.StatusOK {
		return nil, refusal(response)
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, summaryMax+1))
	if err == nil && len(body) > summaryMax {
		err = fmt.Errorf("the answer is larger than %d bytes", summaryMax)
	}
	return body, err
}

// refusal returns an error with the kubelet's response and the right that may be missing.
func refusal(response *http.Response) error {
	const quoted = 200
	right := ""
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		right = "; evictd needs the verb get on nodes/stats"
	}
	start, _ := io.ReadAll(io.LimitReader(response.Body, quoted)) // its own error would not help
	return fmt.Errorf("the kubelet answers %s%s: %q", response.Status, right, start)
}
