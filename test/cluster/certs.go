package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// certificateLife is longer than any test and short enough to limit the use of a forgotten
// cluster's keys.
const certificateLife = 90 * 24 * time.Hour

// Authority is a certificate authority, which signs for servers and clients. Its key is in no file.
type Authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	dir         string
}

// Identity describes the holder of one certificate. One with hosts is a server's, any other
// a client's.
type Identity struct {
	User   string   // the common name: a user's name, for a client
	Groups []string // the organizations: a user's groups, for a client
	Hosts  []string // names and addresses of a server
}

// begin is when a certificate becomes valid: the clock of a virtual machine may be slightly behind.
func begin() time.Time { return time.Now().Add(-time.Hour) }

// NewAuthority makes an authority, and writes ca.crt into dir.
func NewAuthority(dir string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the authority: %w", err)
	}
	certificate, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "evictd-cluster", NotBefore: begin()}, key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of the authority: %w", err)
	}
	return &Authority{certificate, key, dir}, writeCertificate(filepath.Join(dir, "ca.crt"), certificate.Raw)
}

// Issue writes NAME.crt and NAME.key beside the authority's certificate.
func (a *Authority) Issue(name string, holder Identity) error {
	key, err := writeKey(filepath.Join(a.dir, name+".key"))
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: holder.User, Organization: holder.Groups},
		NotBefore: begin(), NotAfter: time.Now().Add(certificateLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(holder.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range holder.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("making the certificate %s: %w", name, err)
	}
	return writeCertificate(filepath.Join(a.dir, name+".crt"), der)
}

// writeKey creates a private key and writes it, readable only by its owner.
func writeKey(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key %s: %w", filepath.Base(path), err)
	}
	text, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key %s: %w", filepath.Base(path), err)
	}
	return key, keyutil.WriteKey(path, text) //nolint:wrapcheck // it names the file
}

func writeCertificate(path string, der []byte) error {
	return cert.WriteCert(path, pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der})) //nolint:wrapcheck // it names the file
}
