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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife is longer than any test and short enough to limit the use of a forgotten
// cluster's keys.
const certificateLife = 90 * 24 * time.Hour

// authority is the only certificate authority of a cluster: it signs for servers and
// clients.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	now         time.Time
}

// identity describes the holder of one certificate. One with hosts is a server's, any other
// a client's.
type identity struct {
	user   string   // the common name: a user's name, for a client
	groups []string // the organizations: a user's groups, for a client
	hosts  []string // names and addresses of a server
}

// newAuthority creates an authority whose certificates are valid from shortly before now,
// and writes ca.crt into dir.
func newAuthority(now time.Time, dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the authority: %w", err)
	}
	template, err := certificateTemplate(now, "evictd-cluster")
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the certificate of the authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the authority: %w", err)
	}
	if err := writePEM(filepath.Join(dir, "ca.crt"), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return &authority{certificate: certificate, key: key, now: now}, nil
}

// issue writes NAME.crt and NAME.key into dir.
func (a *authority) issue(dir, name string, holder identity) error {
	key, err := writeKey(filepath.Join(dir, name+".key"))
	if err != nil {
		return err
	}
	template, err := certificateTemplate(a.now, holder.user)
	if err != nil {
		return err
	}
	template.Subject.Organization = holder.groups
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(holder.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range holder.hosts {
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
	return writePEM(filepath.Join(dir, name+".crt"), "CERTIFICATE", der)
}

func certificateTemplate(now time.Time, name string) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		// The clock of a virtual machine may be slightly behind.
		NotBefore: now.Add(-time.Hour),
		NotAfter:  now.Add(certificateLife),
	}, nil
}

// writeKey creates a private key and writes it, readable only by its owner.
func writeKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key %s: %w", filepath.Base(path), err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key %s: %w", filepath.Base(path), err)
	}
	return key, writePEM(path, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", filepath.Base(path), err)
	}
	return nil
}
