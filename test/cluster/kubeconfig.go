package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WriteKubeconfig writes a kubeconfig of one cluster and one user.
func WriteKubeconfig(path string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) error {
	const name = "it"
	config := clientcmdapi.NewConfig()
	config.Clusters[name], config.AuthInfos[name] = cluster, user
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig %s: %w", filepath.Base(path), err)
	}
	return nil
}

// writeKubeconfig writes a kubeconfig for the holder of pki/NAME.crt. Keys and certificates
// are embedded, so that the file can be copied elsewhere.
func writeKubeconfig(path, server, pki, name string) error {
	var contents [3][]byte
	for i, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		content, err := os.ReadFile(filepath.Join(pki, file)) //nolint:gosec // a path below the caller's folder
		if err != nil {
			return fmt.Errorf("reading what the kubeconfig of %s needs: %w", name, err)
		}
		contents[i] = content
	}
	return WriteKubeconfig(path, &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: contents[0]},
		&clientcmdapi.AuthInfo{ClientCertificateData: contents[1], ClientKeyData: contents[2]})
}

// Kubectl runs the real kubectl as the administrator, with that input, and returns what it prints. The error has what it
// complains of.
func (c *Cluster) Kubectl(ctx context.Context, input string, arguments ...string) (string, error) {
	arguments = append([]string{"--kubeconfig", c.Kubeconfig()}, arguments...)
	command := exec.CommandContext(ctx, filepath.Join(c.options.BinDir, "kubectl"), arguments...) //nolint:gosec // what build.sh built
	var complaints bytes.Buffer
	command.Stdin, command.Stderr = strings.NewReader(input), &complaints
	output, err := command.Output()
	if err != nil {
		return string(output), fmt.Errorf("running kubectl %s: %w: %s", strings.Join(arguments[2:], " "), err, complaints.String())
	}
	return string(output), nil
}
