package server

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCertificate writes a certificate of its own with a number.
func writeCertificate(t *testing.T, certFile, keyFile string, number int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "cleave"}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "EC PRIVATE KEY", Bytes: der}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		// Files that are written in the same tick of a clock get different times.
		if err := os.Chtimes(file, time.Time{}, time.Unix(1_700_000_000+number, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestEncryptedConnectionsAreServedAndCertificatesReplaced(t *testing.T) {
	l := startServer(t, shapes[1], Options{})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.s.ServeTLS(listen, certFile, keyFile); err == nil {
		t.Fatal("it serves without a certificate")
	}
	writeCertificate(t, certFile, keyFile, 1)
	done := make(chan error, 1)
	go func() { done <- l.s.ServeTLS(listen, certFile, keyFile) }()
	dial := func() (c *testConn, number int64) {
		raw, err := tls.Dial("tcp", listen.Addr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { raw.Close() })
		_ = raw.SetDeadline(time.Now().Add(time.Minute))
		return &testConn{t, raw, bufio.NewReader(raw)}, raw.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	first, number := dial()
	if first.runScript("SET a 1 -> OK\nMGET a b -> [1 (nil)]"); number != 1 {
		t.Errorf("the certificate is number %d", number)
	}
	_, port, _ := net.SplitHostPort(listen.Addr().String())
	first.runScript("CONFIG GET tls-port -> [tls-port " + port + "]")
	writeCertificate(t, certFile, keyFile, 2)
	if second, number := dial(); second.ask("GET a") != "1" || number != 2 {
		t.Errorf("the new certificate is number %d", number)
	}
	if err := os.WriteFile(keyFile, []byte("half of a k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third, number := dial(); third.ask("GET a") != "1" || number != 2 {
		t.Errorf("with half of a key it is number %d", number)
	}
	first.runScript("GET a -> 1")
	l.s.Close()
	if err := <-done; err != ErrClosed {
		t.Error(err)
	}
}
