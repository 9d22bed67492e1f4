// Command authority makes what a control plane of its own needs to be trusted, in the folder it is given:
//
//	ca.crt                 the certificate that clients trust
//	NAME.crt, NAME.key     a serving certificate for 127.0.0.1 for each further argument, with its key
//	service-account.key    what signs the tokens of ServiceAccounts
//
// The authority's own key is never written. Everything is valid for a day.
package main

import (
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

const (
	lifetime  = 24 * time.Hour
	clockSkew = 5 * time.Minute
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: authority FOLDER [NAME...]")
		os.Exit(2)
	}
	if err := makeAll(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "authority: %v\n", err)
		os.Exit(1)
	}
}

func makeAll(folder string, names []string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := certificate(1, "trainyard control plane")
	authority.IsCA = true
	authority.BasicConstraintsValid = true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	signed, err := x509.CreateCertificate(rand.Reader, authority, authority, &key.PublicKey, key)
	if err != nil {
		return err
	}
	if err := write(folder, "ca.crt", "CERTIFICATE", signed); err != nil {
		return err
	}
	for i, name := range names {
		if err := serving(folder, name, int64(i+2), authority, key); err != nil {
			return err
		}
	}
	_, err = newKey(folder, "service-account")
	return err
}

func serving(folder, name string, serial int64, authority *x509.Certificate, by *ecdsa.PrivateKey) error {
	key, err := newKey(folder, name)
	if err != nil {
		return err
	}
	server := certificate(serial, name)
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	signed, err := x509.CreateCertificate(rand.Reader, server, authority, &key.PublicKey, by)
	if err != nil {
		return err
	}
	return write(folder, name+".crt", "CERTIFICATE", signed)
}

func certificate(serial int64, name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(lifetime),
	}
}

func newKey(folder, name string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(folder, name+".key", "EC PRIVATE KEY", der)
}

func write(folder, name, kind string, der []byte) error {
	text := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	return os.WriteFile(filepath.Join(folder, name), text, 0o600)
}
