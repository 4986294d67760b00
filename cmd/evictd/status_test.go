package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/internal/httpd"
)

// listening serves the document of the worked example, and notes the queries.
func listening(t *testing.T) (address string, queries *[]string) {
	t.Helper()
	text, queries := readFile(t, example), &[]string{}
	url := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*queries = append(*queries, r.URL.RequestURI())
		_, _ = w.Write([]byte(text))
	}))
	return strings.TrimPrefix(url, "http://"), queries
}

// The commands print what the running evictd knows, and ask it for what they print.
func TestCommandsAskTheRunningEvictd(t *testing.T) {
	t.Parallel()
	address, queries := listening(t)
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	saved := filepath.Join(t.TempDir(), "node.json")
	for _, test := range []struct {
		args        []string
		query, want string
	}{
		{[]string{"status"}, "/debug/status?disk=false", "worker-1"},
		// An address of all interfaces is reached from inside.
		{[]string{"status", "--debug-bind-address", ":" + port}, "/debug/status?disk=false", "worker-1"},
		{[]string{"status", "--debug-bind-address", "0.0.0.0:" + port}, "/debug/status?disk=false", "worker-1"},
		{[]string{"status", "-o", "json"}, "/debug/status?disk=false", `"kind": "NodeStatus"`},
		{[]string{"rank", "--why", "shop/web-6b7c9-9s2hw"}, "/debug/status?disk=false", "It is candidate 4 of 8."},
		{[]string{"rank", "--signal=nodefs.available", "--why=shop/cache-0"}, "/debug/status?disk=true", "shop/cache-0 on node"},
		{[]string{"rank", "--save=-"}, "/debug/status?disk=true", `"kind": "NodeStatus"`},
		{[]string{"rank", "--save", saved, "--why=shop/cache-0"}, "/debug/status?disk=true", "shop/cache-0 on node"},
	} {
		code, stdout, stderr := call(t, slices.Concat(test.args[:1], []string{"--debug-bind-address", address}, test.args[1:])...)
		asked := (*queries)[len(*queries)-1]
		if code != exitFine || !strings.Contains(stdout, test.want) || stderr != "" || asked != test.query {
			t.Errorf("%q: code %d, asked %s, stderr %q, stdout\n%s\nwant %s and %q", test.args, code, asked, stderr, stdout, test.query, test.want)
		}
	}
	if readFile(t, saved) != readFile(t, example) {
		t.Error("what is saved is not what evictd answered")
	}
}

// A document is saved for its owner alone, and in place of no file.
func TestSave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "node.json")
	write := func(text string) error {
		return save(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
	}
	must(t, write("1\n"))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info.Mode(), err)
	}
	if err = write("2\n"); !errors.Is(err, os.ErrExist) || readFile(t, path) != "1\n" {
		t.Errorf("over a file: %v", err)
	}
	if err = save(filepath.Join(dir, "none", "x.json"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in no directory: %v", err)
	}
}

// Where evictd has no answer, or a document does not tell, the command says what to do in one line.
func TestCommandsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	busy := strings.TrimPrefix(serving(t, httpd.Page(func(*http.Request) (any, error) { return nil, os.ErrDeadlineExceeded })), "http://")
	unranked := writeFile(t, "node.json", strings.Replace(readFile(t, example), `"diskMeasured"`, `"lastTick"`, 1))
	const noAnswer, unmeasured = "it answers 503: i/o timeout; run this in the pod", "the pods' disk use has not been measured yet; rank for memory"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"rank", "--debug-bind-address", busy}, noAnswer},
		{[]string{"status", "--debug-bind-address", busy}, noAnswer},
		{[]string{"rank", "--snapshot", unranked, "--signal", "nodefs.available"}, unmeasured},
	} {
		code, stdout, stderr := call(t, test.args...)
		if code != exitFault || stdout != "" || !strings.HasPrefix(stderr, "evictd: ") || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: code %d, stdout %q, stderr %q; want 1 and one line with %q", test.args, code, stdout, stderr, test.want)
		}
	}
}
