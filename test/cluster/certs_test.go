package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
)

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	ca, err := NewAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	identities := map[string]Identity{
		"server": {User: "server", Hosts: []string{"127.96.7.1", "kubernetes.default"}},
		"client": {User: "system:node:n", Groups: []string{"system:nodes"}},
	}
	for name, holder := range identities {
		if err = ca.Issue(name, holder); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(read(t, filepath.Join(dir, "ca.crt")))

	for _, host := range []string{"127.96.7.1", "kubernetes.default"} {
		options := x509.VerifyOptions{Roots: roots, DNSName: host}
		if _, err = load(t, dir, "server").Verify(options); err != nil {
			t.Errorf("server as %s: %v", host, err)
		}
	}
	client := load(t, dir, "client")
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err = client.Verify(options); err != nil {
		t.Errorf("client: %v", err)
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err = client.Verify(options); err == nil {
		t.Error("a client's certificate serves as a server's")
	}
	if client.Subject.CommonName != "system:node:n" || client.Subject.Organization[0] != "system:nodes" {
		t.Errorf("client is %s", client.Subject)
	}
	info, err := os.Stat(filepath.Join(dir, "client.key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: mode %v, error %v", info.Mode(), err)
	}
}

func load(t *testing.T, dir, name string) *x509.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}
