package server

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// ServeTLS serves encrypted connections of a listener, as Serve does. A certificate that
// is replaced is used from the next connection on.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	c, err := TLSConfig(certFile, keyFile)
	if err != nil {
		return err
	}
	s.config.SetListenAddr("tls-port", l.Addr())
	return s.serveListener(tls.NewListener(l, c))
}

// TLSConfig is for a listener that encrypts. A certificate that is replaced is used from the next
// connection on.
func TLSConfig(certFile, keyFile string) (*tls.Config, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	if _, err := c.get(nil); err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12}, nil
}

// certificate is read from files again when they change.
type certificate struct {
	certFile, keyFile string

	mu       sync.Mutex
	current  *tls.Certificate
	modTimes [2]time.Time // of the files, as they were read
}

// get returns the certificate. If the new one cannot be read, perhaps because only one
// of the files is written yet, it is the old one.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, err := listFileModTimes(c.certFile, c.keyFile)
	if err == nil && c.current != nil && changed == c.modTimes {
		return c.current, nil
	}
	if err == nil {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.certFile, c.keyFile); err == nil {
			c.current, c.modTimes = &pair, changed
			return c.current, nil
		}
	}
	if c.current != nil {
		return c.current, nil
	}
	return nil, fmt.Errorf("serve: certificate %s with key %s: %w", c.certFile, c.keyFile, err)
}

func listFileModTimes(files ...string) (at [2]time.Time, err error) {
	for i, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return at, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}
