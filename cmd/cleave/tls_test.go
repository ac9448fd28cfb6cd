package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// certify writes a certificate of its own and its key.
func certify(t *testing.T) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// freePort returns an address where nobody listens, and its port.
func freePort(t *testing.T) (addr, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr = l.Addr().String()
	_, port, _ = net.SplitHostPort(addr)
	return addr, port
}

func TestACertificateThatIsNoUseIsToldBeforeAnythingIsServed(t *testing.T) {
	certFile, _ := certify(t)
	_, port := freePort(t)
	data := filepath.Join(t.TempDir(), "data")
	code, stdout, stderr := exec("serve", "--data", data, "--resp-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--tls-port", port, "--tls-cert-file", certFile, "--tls-key-file", certFile)
	if _, err := os.Stat(data); code != exitFailed || !strings.Contains(stderr, "--tls-key-file") || stdout != "" || err == nil {
		t.Errorf("exit %d, %s%s", code, stdout, stderr)
	}
}

func TestClientsThatEncryptAreServedAtTheirPort(t *testing.T) {
	certFile, keyFile := certify(t)
	addr, port := freePort(t)
	file := write(t, "c.toml", "storage = 'memory'\ntls-port = "+port+"\ntls-cert-file = '"+certFile+"'\ntls-key-file = '"+keyFile+"'\n")
	serving(t, "--config", file)
	c := redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: time.Minute, TLSConfig: &tls.Config{InsecureSkipVerify: true}})
	defer c.Close()
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
}
