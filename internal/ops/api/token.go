package api

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// The ways to hand a token to the server and to its clients.
const (
	// EnvToken is the token itself, and EnvTokenFile a file that has it.
	EnvToken     = "CLEAVE_HTTP_TOKEN"
	EnvTokenFile = "CLEAVE_HTTP_TOKEN_FILE"
	// EnvReadToken is a token for what reads, for the server: a client that has it sends it as
	// its token.
	EnvReadToken = "CLEAVE_HTTP_READ_TOKEN"
	// TokenFile is the name of the file in the directory of the data, in which a server
	// without a given token keeps one that it made. A user that may read the data may use it.
	TokenFile = "http-token"
)

// MinTokenChars is the least length of a token: a shorter one can be guessed.
const MinTokenChars = 16

// TokenPath is where a server leaves the token that it made for clients of the same user,
// as long as it runs: in the user's own directory, by the address that it listens on.
func TokenPath(addr string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, addr)
	return filepath.Join(dir, "cleave", TokenFile+"-"+name), nil
}

// FindToken returns the token for a server as a client on the same machine finds it: what
// the environment says, else what a server has left for this user under its address, else
// what one keeps in the directory of its data, if that is not "". It
// returns "" if there is none: then the server can be read, if it listens on loopback, and
// not changed.
func FindToken(addr, data string) (string, error) {
	if t := os.Getenv(EnvToken); t != "" {
		return t, nil
	}
	if file := os.Getenv(EnvTokenFile); file != "" {
		return ReadToken(file)
	}
	var files []string
	for _, name := range listenAddrs(addr) {
		if path, err := TokenPath(name); err == nil {
			files = append(files, path)
		}
	}
	if data != "" {
		files = append(files, filepath.Join(data, TokenFile))
	}
	for _, file := range files {
		t, err := ReadToken(file)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	return "", nil
}

// listenAddrs returns the addresses that a server may listen on which clients reach by this
// one: itself, and on the same machine also others with its port.
func listenAddrs(addr string) []string {
	addr = trimScheme(addr)
	names := []string{addr}
	if _, port, err := net.SplitHostPort(addr); err == nil && IsLoopback(addr) {
		for _, host := range []string{"127.0.0.1", "::1", "::", "0.0.0.0"} {
			names = append(names, net.JoinHostPort(host, port))
		}
	}
	return names
}

// trimScheme is an address without its scheme.
func trimScheme(addr string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(addr, "http://"), "https://"), "/")
}

// IsLoopback reports whether an address is that of a server on this machine.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(trimScheme(addr))
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// ReadToken reads a file that has a token.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}
