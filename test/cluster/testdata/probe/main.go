// Command probe runs in a pod that is as confined as evictd's and prints, as one JSON
// object, what it can see and reach from there.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	findings := map[string]any{
		"meminfo":  firstWord("/host/proc/meminfo"),
		"cgroups":  names("/host/sys/fs/cgroup/memory/" + os.Getenv("CGROUP_ROOT") + "/kubepods"),
		"kubelet":  names("/host/var/lib/kubelet"),
		"rootfs":   text(os.WriteFile("/written", nil, 0o600)),
		"review":   review(),
		"kubelets": get("https://127.0.0.1:" + os.Getenv("KUBELET_PORT") + "/stats/summary"),
		"uid":      os.Getuid(),
	}
	if err := json.NewEncoder(os.Stdout).Encode(findings); err != nil {
		os.Exit(1)
	}
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	<-terminated
}

func firstWord(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	word, _, _ := bytes.Cut(content, []byte(" "))
	return string(word)
}

func names(pattern string) []string {
	found, _ := filepath.Glob(pattern + "/*")
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// review reads this pod's identity from the API server.
func review() any {
	server := "https://" + os.Getenv("KUBERNETES_SERVICE_HOST") + ":" + os.Getenv("KUBERNETES_SERVICE_PORT")
	body := `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`
	_, answer := request(http.MethodPost, server+"/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
	var decoded any
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return string(answer)
	}
	return decoded
}

func get(url string) int {
	code, _ := request(http.MethodGet, url, "")
	return code
}

func request(method, url, body string) (int, []byte) {
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return 0, []byte(err.Error())
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return 0, []byte(err.Error())
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}}
	asked, err := http.NewRequest(method, url, bytes.NewBufferString(body))
	if err != nil {
		return 0, []byte(err.Error())
	}
	asked.Header.Set("Authorization", "Bearer "+string(token))
	asked.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(asked)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, []byte(fmt.Sprint(err))
	}
	return answer.StatusCode, content
}
