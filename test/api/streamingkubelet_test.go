package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/evictd/evictd/test/internal/evictdtest"
)

// streamingKubelet is the part of a node's kubelet that serves exec, with the kubelet's own streaming
// library. There are no containers: it runs evictd on this machine with the paths that the container
// would have.
type streamingKubelet struct {
	server *httptest.Server
	// agent is where the node's evictd listens, which a command in its container would find by itself.
	agent string
	// paths replaces the beginnings of the paths in a command, as a container's mounts do.
	paths map[string]string
}

// start serves with the certificate that the API server expects of a kubelet.
func (k *streamingKubelet) start(t *testing.T) {
	t.Helper()
	pki := filepath.Join(evictdtest.Cluster().Dir(), "pki")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(pki, "localhost.crt"), filepath.Join(pki, "localhost.key"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, k, r.PathValue("pod"), "", r.PathValue("container"), r.URL.Query()["command"], options,
			time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	})
	k.server = httptest.NewUnstartedServer(mux)
	k.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}}
	k.server.StartTLS()
	t.Cleanup(func() {
		k.server.CloseClientConnections()
		k.server.Close()
	})
}

// port is where it listens.
func (k *streamingKubelet) port() string {
	_, port, _ := net.SplitHostPort(k.server.Listener.Addr().String()) // a listener's own address
	return port
}

// ExecInContainer runs a command.
func (k *streamingKubelet) ExecInContainer(ctx context.Context, _, _, container string, words []string, _ io.Reader, out, errs io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	if container != "evictd" {
		return fmt.Errorf("there is no container %q", container)
	}
	mounted := make([]string, 0, len(words))
	for _, word := range words {
		flag, path, is := strings.Cut(word, "=")
		if !is {
			flag, path = "", word
		} else {
			flag += "="
		}
		for inside, outside := range k.paths {
			if rest, below := strings.CutPrefix(path, inside); below {
				path = outside + rest
				break
			}
		}
		mounted = append(mounted, flag+path)
	}
	more := "--http-bind-address=" + k.agent
	if mounted[1] == "doctor" {
		more = "--kubeconfig=" + evictdtest.Cluster().Kubeconfig()
	}
	command := exec.CommandContext(ctx, mounted[0], append(mounted[1:], more)...)
	command.Stdout, command.Stderr = out, errs
	err := command.Run()
	if ended, exited := errors.AsType[*exec.ExitError](err); exited {
		return utilexec.CodeExitError{Err: err, Code: ended.ExitCode()}
	}
	return err
}
